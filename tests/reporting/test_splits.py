"""Tables and figures say which tasks have one split for all seeds."""

import pytest

from dpgraph.config.config import Config
from dpgraph.planning.plan import load_plan
from dpgraph.reporting import splits
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.tables import write_table
from tests.plans import plan_of
from tests.reporting.conftest import WORKFLOW

SUITE = """
name: parts
title: Every kind of split
note: No number means anything.
seeds: 2
tasks:
  drawn: {label: Drawn, task: {dataset: cora-ml, split: random-70-10-20}}
  rest: {label: Rest, task: {dataset: pubmed, split: train-rest}}
  own: {label: Own, task: {dataset: pubmed}}
  groups: {label: Groups, task: {dataset: cora-ml, setting: clustered, split: ratio-67-18-15}}
papers:
  daigavane:
    rules: [{set: {model: {width: 16}, training: {learning_rate: 0.02, sampling_rate: 0.1, steps: 10}}}]
    artefacts:
      table1: [{methods: [mlp, gcn-1], tasks: [drawn, rest, own, groups]}]
      table7: [{tasks: [drawn, rest]}]
      fig2: [{methods: [mlp], tasks: [rest]}]
      fig4: [{methods: [gcn-1], tasks: [drawn]}]
"""
PUBMED = "Rest (train-rest: the data set’s own validation and test nodes, all others train)"


@pytest.fixture(scope="module")
def parts_plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "suites").mkdir()
    (folder / "experiments").symlink_to(WORKFLOW / "experiments")
    (folder / "suites" / "parts.yaml").write_text(SUITE)
    return load_plan(Config(suite="parts"), folder)


def test_remarks_of_every_kind(parts_plan):
    fixed = "One fixed split for all seeds, so intervals and ± hold for this split only: "
    assert splits.remarks(parts_plan, "daigavane/table1") == [
        "Each seed has a random split of its own: Drawn.",
        f"{fixed}{PUBMED}; Own (public: the data set’s own); Groups (by clusters).",
    ]
    assert splits.remarks(parts_plan, "daigavane/table7") == []  # statistics of data: nothing is trained
    assert splits.fixed(parts_plan, "daigavane/fig2") == [f"{fixed}{PUBMED}."]
    assert splits.fixed(parts_plan, "daigavane/fig4") == []


def test_tables_and_figures_carry_them(parts_plan, tmp_path):
    write_table(parts_plan, "daigavane/table1", None, tmp_path / "t")
    for suffix in ("md", "tex", "html"):
        assert "hold for this split only" in (tmp_path / f"t.{suffix}").read_text()
    write_figure(parts_plan, "daigavane/fig2", None, tmp_path / "fixed")
    write_figure(parts_plan, "daigavane/fig4", None, tmp_path / "drawn")
    assert "One fixed split for all seeds" in (tmp_path / "fixed.txt").read_text()
    assert "One fixed split" not in (tmp_path / "drawn.txt").read_text()


@pytest.mark.parametrize("suite", sorted(path.stem for path in (WORKFLOW / "suites").glob("*.yaml")))
def test_every_split_of_the_suites_has_a_name(suite):
    plan = plan_of(suite)
    for artefact in plan.artefacts:
        splits.remarks(plan, artefact)
