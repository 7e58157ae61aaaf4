"""What stands in for a data set that cannot be had, and how the plan says so. No test here reaches a network."""

import pytest
import yaml

from dpgraph.config.config import Config
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data import fetch as fetch_module
from dpgraph.data.manifest import Manifest, read_manifest, write_manifest
from dpgraph.data.registry import Licence
from dpgraph.planning.fallback import provide
from dpgraph.planning.plan import load_plan
from dpgraph.problems.preprocess import preprocess
from dpgraph.reporting.inputs import front_page
from tests.planning.test_plan import WORKFLOW

REAL = ("pubmed", "citeseer")


@pytest.fixture
def calls(monkeypatch):
    """Every place that is asked answers that it cannot be reached; returns what was asked."""
    asked = []

    def unreachable(what, *args, **rest):
        asked.append(str(what))
        raise DataUnavailable(f"{what}: cannot be reached")

    monkeypatch.setattr(fetch_module, "download", unreachable)
    monkeypatch.setattr(fetch_module, "wheel_file", unreachable)
    return asked


@pytest.fixture
def config(tmp_path):
    return Config(suite="demo", data=str(tmp_path / "data"), results=str(tmp_path / "results"))


def test_a_machine_that_reaches_nothing_runs_on_synthetic_graphs(config, calls, tmp_path):
    assert load_plan(config, WORKFLOW).task("pubmed").dataset == "pubmed"  # nobody has looked yet
    said = provide(config, WORKFLOW, {})
    assert said.startswith("NOT REACHABLE: ")
    assert "\n" not in said
    assert "synthetic graphs stand in, without the papers' numbers" in said
    assert calls
    plan = load_plan(config, WORKFLOW)
    assert not {plan.task(task).dataset for task in plan.suite.tasks} & set(REAL)
    assert not {cell.task.dataset for cell in plan.cells.values()} & set(REAL)
    shown = plan.suite.tasks["pubmed-80"]
    assert (shown.label, shown.published) == ("synthetic instead of PubMed (not reachable)", None)
    assert all(entry.suite_task.published is None for entry in plan.entries)
    assert front_page(plan)["note"].endswith(said)
    # the rest of the workflow needs no special case: the stand-in is fetched and stored as itself
    task = plan.task("citeseer")
    fetch_module.fetch(task.dataset, tmp_path / "raw")
    preprocess(task, tmp_path / "raw", tmp_path / "graph")
    assert (tmp_path / "graph/graph.json").read_text().count('"status": "ok"') == 1


def test_what_cannot_be_had_is_looked_for_once_for_the_same_mirrors(config, calls, tmp_path):
    first = provide(config, WORKFLOW, {})
    asked = len(calls)
    assert provide(config, WORKFLOW, {}) == first
    assert len(calls) == asked
    (tmp_path / "mirror").mkdir()
    assert provide(config, WORKFLOW, {"DPGRAPH_MIRROR": str(tmp_path / "mirror")}) == first
    assert len(calls) > asked


def test_data_that_are_there_are_used_beside_the_papers_numbers(config, calls):
    for name in REAL:
        folder = f"{config.data}/raw/{name}"
        write_manifest(Manifest(dataset=name, status="ok", licence=Licence(name="x"), citation="", time="now"), folder)
    assert provide(config, WORKFLOW, {}) == ""
    assert not calls
    plan = load_plan(config, WORKFLOW)
    assert plan.task("citeseer").dataset == "citeseer"
    assert plan.suite.tasks["citeseer"].published == "citeseer"
    assert "NOT REACHABLE" not in plan.suite.note


def test_one_of_two_data_sets(config, calls):
    folder = f"{config.data}/raw/pubmed"
    write_manifest(Manifest(dataset="pubmed", status="ok", licence=Licence(name="x"), citation="", time="now"), folder)
    assert "CiteSeer" in provide(config, WORKFLOW, {})
    assert "PubMed" not in provide(config, WORKFLOW, {})
    assert read_manifest(folder).status == "ok"
    plan = load_plan(config, WORKFLOW)
    assert (plan.task("pubmed").dataset, plan.task("citeseer").dataset) == ("pubmed", "demo-digits")


def test_only_generated_data_stand_in(tmp_path, config):
    folder = tmp_path / "workflow"
    (folder / "suites").mkdir(parents=True)
    (folder / "experiments").symlink_to(WORKFLOW / "experiments")
    suite = yaml.safe_load((WORKFLOW / "suites/demo.yaml").read_text())
    suite["tasks"]["pubmed"]["fallback"] = {"dataset": "cora"}
    (folder / "suites/demo.yaml").write_text(yaml.safe_dump(suite))
    with pytest.raises(UserError, match=r"tasks\.pubmed\.fallback=cora: expected a generated data set"):
        load_plan(config, folder)
