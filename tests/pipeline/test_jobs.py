"""Jobs of several cells: existing files are not changed, a failure affects one cell, forcing trains again."""

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpgraph.cli import main
from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.data.store import save_graph
from dpgraph.families import registry
from dpgraph.pipeline import execute, jobs
from dpgraph.pipeline.bundles import calibration_bundles, training_bundles, write_runs
from dpgraph.pipeline.fingerprints import bundle_digest
from dpgraph.pipeline.jobs import calibrate_bundle, train_bundle
from dpgraph.pipeline.run_files import AGAIN, ATTEMPT, RETRIES, read_runs
from dpgraph.pipeline.workflow import BundleJobs
from dpgraph.planning import resolve as resolve_module
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


def jobs_of(plan):
    """Write the files of runs, as the workflow does, and return those of each stage."""
    calibrations, training = calibration_bundles(plan), training_bundles(plan)
    write_runs(plan, training.values(), calibrations.values())
    paths = Paths(plan.config)
    return [paths.runs("calibrate", name) for name in calibrations], [paths.runs("train", name) for name in training]


def run(plan):
    calibrations, training = jobs_of(plan)
    for path in calibrations:
        calibrate_bundle(read_runs(path, "calibrate"))
    for path in training:
        bundle = read_runs(path, "train")
        bundle.paths.trained(bundle.name).unlink(missing_ok=True)  # as Snakemake does before a job
        train_bundle(bundle, "cpu", 1)


def stamps(plan):
    return {path: path.stat().st_mtime_ns for path in Paths(plan.config).suite.glob("cells/*/*") if path.is_file()}


def records(plan):
    paths = Paths(plan.config)
    return {slug: json.loads(paths.result(cell).read_text()) for slug, cell in plan.cells.items()}


def refuse(reason, unless):
    """Calibration that meets targets of at least `unless` only."""
    real = jobs.calibrate_run

    def calibrate(run, out, evaluations):
        if run.target.target_epsilon < unless:
            raise UserError(reason)
        real(run, out)

    return calibrate


def test_a_budget_that_cannot_be_met_is_a_result_of_its_cells_only(plan, monkeypatch):
    monkeypatch.setattr(jobs, "calibrate_run", refuse("epsilon=0.0001: out of reach", 1))
    run(plan)
    found = records(plan)
    (failed,) = [record for record in found.values() if record["status"] == "failed"]
    assert failed["reason"] == "not calibrated: epsilon=0.0001: out of reach"
    assert failed["cell"]["privacy"]["epsilon"] == 0.0001
    assert [record["status"] for record in found.values()].count("ok") == 2
    (marker,) = [Paths(plan.config).trained(name) for name in training_bundles(plan)]
    assert set(json.loads(marker.read_text())) == set(plan.cells)


def test_only_what_is_gone_is_trained_and_a_forced_rerun_trains_all(plan, monkeypatch):
    monkeypatch.setattr(jobs, "calibrate_run", refuse("out of reach", 1))
    run(plan)
    before, content = stamps(plan), records(plan)
    slug = next(slug for slug, record in content.items() if record["status"] == "ok")
    folder = Paths(plan.config).cell(plan.cells[slug])
    (folder / "seed=1.json").unlink()
    (folder / "result.json").unlink()
    run(plan)
    after = stamps(plan)
    seeds = [path for path in before if path.name.startswith("seed=") and path.suffix == ".json"]
    assert {path for path in seeds if after[path] != before[path]} == {folder / "seed=1.json"}
    monkeypatch.setenv(AGAIN, "1")
    run(plan)
    forced = stamps(plan)
    assert all(forced[path] > after[path] for path in seeds)
    metrics = [[seed["metrics"] for seed in record["seeds"]] for record in records(plan).values()]
    assert metrics == [[seed["metrics"] for seed in record["seeds"]] for record in content.values()]


def test_cells_that_are_there_are_not_trained_again_in_other_bundles(plan, monkeypatch):
    run(plan)
    before, names = stamps(plan), set(training_bundles(plan))
    plan = replace(plan, config=plan.config.model_copy(update={"parallel_jobs": 8}))
    monkeypatch.setattr("dpgraph.pipeline.bundles.LENGTHS", (1e-3,))
    assert not names & set(alone := training_bundles(plan))
    assert all(len(bundle.runs) == 1 for bundle in alone.values())
    run(plan)
    results = [path for path in before if path.name != "cell.json" and path.suffix == ".json"]
    assert {path: before[path] for path in results} == {path: stamps(plan)[path] for path in results}


def test_one_failing_cell_does_not_keep_the_others_from_training(plan, monkeypatch):
    monkeypatch.setattr(jobs, "calibrate_run", refuse("out of reach", 1))
    calibrations, (training,) = jobs_of(plan)
    for path in calibrations:
        calibrate_bundle(read_runs(path, "calibrate"))
    bundle = read_runs(training, "train")
    real, broken = jobs.train_run, next(iter(bundle.runs))

    def train_run(run, *arguments):
        if run.cell.slug == broken:
            raise ZeroDivisionError("a bug")
        return real(run, *arguments)

    monkeypatch.setattr(jobs, "train_run", train_run)
    with pytest.raises(UserError, match=rf"1 of 3 failed, the first {broken}: ZeroDivisionError: a bug"):
        train_bundle(bundle, "cpu", 1)
    paths = Paths(plan.config)
    assert not paths.trained(bundle.name).exists()
    there = [paths.result(run.cell).exists() for run in bundle.runs.values()]
    assert there == [False, True, True]


def test_a_job_without_memory_fails_until_its_last_attempt_and_is_not_done_then(plan, monkeypatch):
    """Its cells are results, tables can be made of them, and the next run trains them again."""
    monkeypatch.setattr(jobs, "calibrate_run", refuse("out of reach", 1))
    run(plan)
    before = records(plan)
    training = training_bundles(plan)
    (name,), paths = training, Paths(plan.config)
    slug = next(slug for slug, cell in plan.cells.items() if cell.method == "mlp")
    (paths.cell(plan.cells[slug]) / "seed=1.json").unlink()

    def train():
        paths.trained(name).unlink(missing_ok=True)
        train_bundle(read_runs(paths.runs("train", name), "train"), "cpu", 1)

    workflow = BundleJobs("train", training, paths, bundle_digest)

    def parameter():
        """Return what Snakemake compares with the value at the start of the last job that ended well."""
        return workflow.unfinished(SimpleNamespace(bundle=name))

    class Full:
        def run(self, job, observe):
            raise MemoryError("no room")

    monkeypatch.setenv(RETRIES, "1")
    with monkeypatch.context() as full:
        full.setattr(execute, "trainer_of", lambda known: Full())
        monkeypatch.setenv(ATTEMPT, "1")
        assert not parameter()
        with pytest.raises(UserError, match=rf"^{name}: attempt 1 of 2: 1 of 3 ran out of memory, the first {slug}$"):
            train()
        assert not paths.trained(name).exists()
        assert not parameter()
        monkeypatch.setenv(ATTEMPT, "2")
        train()
        assert paths.trained(name).exists()
        assert [seed["reason"] for seed in records(plan)[slug]["seeds"]] == ["", "out of memory: no room"]
        first = parameter()
        assert first
        monkeypatch.delenv(RETRIES)
        monkeypatch.delenv(ATTEMPT)
        train()  # by hand, or where nothing is tried twice
        assert paths.trained(name).exists()
        second = parameter()
        assert second != first
    train()
    assert parameter() == second
    assert [[seed["metrics"] for seed in record["seeds"]] for record in records(plan).values()] == [
        [seed["metrics"] for seed in record["seeds"]] for record in before.values()
    ]


def test_the_registry_is_asked_once_per_plan_and_once_per_job(plan, tmp_path, monkeypatch):
    """Every question to the registry goes through `_specs`; before a run was resolved once, a cell asked 14 times."""
    asked, real = [], registry._specs
    monkeypatch.setattr(registry, "_specs", lambda places: asked.append(places) or real(places))
    resolve_module._keys_of_others()  # kept for the process
    asked.clear()
    again = load_plan(plan.config, tmp_path)
    calibrations, training = jobs_of(again)
    bundle_digest(again.runs.values())
    assert len(asked) == 1
    for path in calibrations:
        asked.clear()
        calibrate_bundle(read_runs(path, "calibrate"))
        assert len(asked) == 1
    (path,) = training
    asked.clear()
    train_bundle(read_runs(path, "train"), "cpu", 1)
    assert len(asked) == 1 < len(again.cells)


def test_a_job_reads_its_runs_and_plans_nothing(plan, monkeypatch):
    calibrations, (training,) = jobs_of(plan)
    monkeypatch.setattr("dpgraph.planning.plan.load_plan", lambda *given: pytest.fail("a job planned the suite"))
    for path in calibrations:
        assert main(["calibrate", str(path)]) == 0
    assert main(["train", str(training), "--device", "cpu"]) == 0
    assert len(records(plan)) == len(plan.cells)
    read = read_runs(training, "train")
    assert {name: run.cell for name, run in read.runs.items()} == plan.cells
    assert {name: run.paths for name, run in read.runs.items()} == {slug: run.paths for slug, run in plan.runs.items()}


def test_files_that_would_be_the_same_are_left_alone(plan):
    (training,) = jobs_of(plan)[1]
    os.utime(training, (0, 0))
    jobs_of(plan)
    assert training.stat().st_mtime == 0
    training.write_text("cut off")
    jobs_of(plan)
    assert json.loads(training.read_text())["stage"] == "train"


EDITED = "edited, or written by another version of dpgraph"


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        pytest.param(("sweet",), 1, "sweet=1: unknown key", id="key"),
        pytest.param(("stage",), "calibrate", "stage=calibrate: expected train, or the command `dpgraph", id="stage"),
        pytest.param(("cells",), {}, "cells={}: expected ", id="no cell"),
        pytest.param(("cells", "SLUG", "seeds"), [0, 1, 2], EDITED, id="seeds"),
        pytest.param(("cells", "SLUG", "training", "steps"), 5, EDITED, id="steps"),
        pytest.param(("cells", "SLUG", "training", "stepz"), 5, "cells.SLUG: training.stepz=5", id="setting"),
        pytest.param(("cells", "SLUG", "method"), "magic", "cells.SLUG: method=magic: expected ", id="method"),
        pytest.param(("data",), "", "data=: expected ", id="folder"),
    ],
)
def test_a_file_of_runs_that_is_wrong_is_refused_in_one_line(plan, capsys, path, to, message):
    (file,) = jobs_of(plan)[1]
    value = inner = json.loads(file.read_text())
    slug = next(iter(value["cells"]))
    for key in path[:-1]:
        inner = inner[key.replace("SLUG", slug)]
    inner[path[-1]] = to
    file.write_text(json.dumps(value))
    assert main(["train", str(file), "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {file}: ")
    assert message.replace("SLUG", slug) in said
    assert said.count("\n") == 1


def test_a_run_goes_to_another_process_as_its_cell(plan):
    for run in plan.runs.values():
        assert pickle.loads(pickle.dumps(run)) == run
