"""Jobs of several cells: existing files are not changed, a failure affects one cell, forcing trains again."""

import json
from pathlib import Path

import pytest

from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.data.store import save_graph
from dpgraph.pipeline import jobs
from dpgraph.pipeline.bundles import calibration_bundles, training_bundles
from dpgraph.pipeline.jobs import calibrate_bundle, train_bundle
from dpgraph.planning.plan import load_plan
from tests.contract.conftest import toy_graph

SUITE = """
name: toy
title: Toy
note: No number means anything.
demonstration: true
seeds: 2
tasks:
  sbm: {label: toy, task: {dataset: demo-sbm, setting: transductive}}
papers:
  daigavane:
    rules:
      - set: {model: {width: 4}, training: {learning_rate: 0.02, sampling_rate: 0.2, steps: 4}}
      - {methods: [dp-mlp], set: {training: {steps: 6}}}
    artefacts:
      table1:
        - {methods: [mlp], tasks: [sbm]}
        - {methods: [dp-mlp], tasks: [sbm], epsilons: [8, 0.0001]}
"""
WORKFLOW = Path(__file__).parents[2] / "workflow"


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setenv("DPGRAPH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/toy.yaml").write_text(SUITE)
    (tmp_path / "experiments").symlink_to(WORKFLOW / "experiments")
    config = Config(suite="toy", data=str(tmp_path / "data"), results=str(tmp_path / "results"))
    plan = load_plan(config, tmp_path)
    save_graph(toy_graph(), Paths(config).graph(plan.task("sbm")))
    return plan


def run(plan):
    for bundle in calibration_bundles(plan).values():
        calibrate_bundle(plan, bundle)
    for bundle in training_bundles(plan).values():
        Paths(plan.config).trained(bundle.name).unlink(missing_ok=True)  # as Snakemake does before a job
        train_bundle(plan, bundle, "cpu", 1)


def stamps(plan):
    return {path: path.stat().st_mtime_ns for path in Paths(plan.config).suite.glob("cells/*/*") if path.is_file()}


def records(plan):
    paths = Paths(plan.config)
    return {slug: json.loads(paths.result(cell).read_text()) for slug, cell in plan.cells.items()}


def refuse(reason, unless):
    """Calibration that meets targets of at least `unless` only."""
    real = jobs.calibrate_cell

    def calibrate(cell, graph, out, evaluations):
        if cell.privacy.epsilon < unless:
            raise UserError(reason)
        real(cell, graph, out)

    return calibrate


def test_a_budget_that_cannot_be_met_is_a_result_of_its_cells_only(plan, monkeypatch):
    monkeypatch.setattr(jobs, "calibrate_cell", refuse("epsilon=0.0001: out of reach", 1))
    run(plan)
    found = records(plan)
    (failed,) = [record for record in found.values() if record["status"] == "failed"]
    assert failed["reason"] == "not calibrated: epsilon=0.0001: out of reach"
    assert failed["cell"]["privacy"]["epsilon"] == 0.0001
    assert [record["status"] for record in found.values()].count("ok") == 2
    (marker,) = [Paths(plan.config).trained(name) for name in training_bundles(plan)]
    assert set(json.loads(marker.read_text())) == set(plan.cells)


def test_only_what_is_gone_is_trained_and_a_forced_rerun_trains_all(plan, monkeypatch):
    monkeypatch.setattr(jobs, "calibrate_cell", refuse("out of reach", 1))
    run(plan)
    before, content = stamps(plan), records(plan)
    slug = next(slug for slug, record in content.items() if record["status"] == "ok")
    folder = Paths(plan.config).cell(plan.cells[slug])
    (folder / "seed=1.json").unlink()
    (folder / "result.json").unlink()
    run(plan)  # the same was requested of the last job, but its result is gone: no forced rerun
    after = stamps(plan)
    seeds = [path for path in before if path.name.startswith("seed=") and path.suffix == ".json"]
    assert {path for path in seeds if after[path] != before[path]} == {folder / "seed=1.json"}
    run(plan)  # the same is requested once more
    forced = stamps(plan)
    assert all(forced[path] > after[path] for path in seeds)
    metrics = [[seed["metrics"] for seed in record["seeds"]] for record in records(plan).values()]
    assert metrics == [[seed["metrics"] for seed in record["seeds"]] for record in content.values()]


def test_one_failing_cell_does_not_keep_the_others_from_training(plan, monkeypatch):
    monkeypatch.setattr(jobs, "calibrate_cell", refuse("out of reach", 1))
    for bundle in calibration_bundles(plan).values():
        calibrate_bundle(plan, bundle)
    (bundle,) = training_bundles(plan).values()
    real, broken = jobs.train_cell, bundle.members[0]

    def train_cell(cell, *arguments, **options):
        if cell.slug == broken:
            raise ZeroDivisionError("a bug")
        return real(cell, *arguments, **options)

    monkeypatch.setattr(jobs, "train_cell", train_cell)
    with pytest.raises(UserError, match=rf"1 of 3 failed, the first {broken}: ZeroDivisionError: a bug"):
        train_bundle(plan, bundle, "cpu", 1)
    paths = Paths(plan.config)
    assert not paths.trained(bundle.name).exists()
    there = [paths.result(plan.cells[name]).exists() for name in bundle.members]
    assert there == [False, True, True]
