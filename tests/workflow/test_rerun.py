"""Running again after a change: what changed is done, everything else is left alone."""

import json
import os
import shutil
import subprocess
import sys
import time

import pandas as pd
import pytest


def trained(copy) -> dict[str, int]:
    """When each seed of each cell was written."""
    cells = copy.folder / "results/tiny/cells"
    return {str(path.relative_to(cells)): path.stat().st_mtime_ns for path in cells.glob("*/seed=?.json")}


@pytest.mark.slow
def test_one_more_seed_keeps_the_trained_ones(finished):
    before = trained(finished)
    run = finished.snakemake(config=("seeds=3",), targets=("cells",))
    assert run.returncode == 0, run.stderr
    after = trained(finished)
    assert {name: after[name] for name in before} == before
    assert {name.rsplit("/", 1)[1] for name in set(after) - set(before)} == {"seed=2.json"}
    cell = next((finished.folder / "results/tiny/cells").glob("demo-sbm-*.mlp-0hop-*"))
    assert len(json.loads((cell / "result.json").read_text())["seeds"]) == 3
    # back to two seeds: nothing is trained, and the records say two again
    assert finished.snakemake(targets=("cells",)).returncode == 0
    assert trained(finished) == after
    assert len(json.loads((cell / "result.json").read_text())["seeds"]) == 2
    assert finished.jobs(targets=("cells",)) == {}


def test_a_hyper_parameter_trains_its_cells_only(finished):
    suite = finished.folder / "workflow/suites/tiny.yaml"
    text, before = suite.read_text(), trained(finished)
    rule = "      - {methods: [dp-mlp], set: {training: {learning_rate: 0.03}}}\n    artefacts:"
    suite.write_text(text.replace("    artefacts:", rule, 1))
    jobs = finished.jobs(targets=("cells",))
    assert jobs == {"cells": 1, "train": 1, "total": 2}  # the noise does not depend on the learning rate
    run = finished.snakemake(targets=("cells",))
    assert run.returncode == 0, run.stderr
    after = trained(finished)
    assert {name: after[name] for name in before} == before
    assert {name.split(".")[1] for name in set(after) - set(before)} == {"dp-mlp-0hop"}
    assert len(after) == len(before) + 2
    assert len({name.split("/")[0] for name in set(after) - set(before)}) == 1
    suite.write_text(text)  # back to the first rate: its seeds are still there
    assert finished.jobs(targets=("cells",)) == {}


@pytest.mark.slow
def test_a_deleted_seed_is_trained_again_alone_and_the_same(finished):
    cell = next((finished.folder / "results/tiny/cells").glob("demo-sbm-*.dp-gnn-1hop.rigorous.eps4-*"))
    before = trained(finished)
    metrics = json.loads((cell / "seed=1.json").read_text())["record"]["metrics"]
    (cell / "seed=1.json").unlink()
    (cell / "result.json").unlink()
    assert finished.snakemake().returncode == 0
    assert not (cell / "seed=1.json").exists()  # nobody needs it: everything made from it is there
    assert finished.snakemake(targets=("cells",)).returncode == 0
    after = trained(finished)
    assert [name for name in before if after[name] != before[name]] == [f"{cell.name}/seed=1.json"]
    assert json.loads((cell / "seed=1.json").read_text())["record"]["metrics"] == metrics


@pytest.mark.slow
def test_a_forced_rerun_trains_everything_and_finds_the_same(finished):
    before = trained(finished)
    table = (finished.folder / "results/tiny/tables/daigavane/table1.csv").read_text()
    run = finished.snakemake("--forcerun", "train", targets=("results/tiny/tables/daigavane/table1.csv",))
    assert run.returncode == 0, run.stderr
    after = trained(finished)
    assert after.keys() == before.keys()
    assert all(after[name] > before[name] for name in before)
    keep = [line.split(",")[:6] for line in table.splitlines()]
    again = (finished.folder / "results/tiny/tables/daigavane/table1.csv").read_text()
    assert [line.split(",")[:6] for line in again.splitlines()] == keep


@pytest.mark.slow
def test_a_job_by_hand_trains_what_is_gone(finished):
    cell = next((finished.folder / "results/tiny/cells").glob("demo-sbm-*.dp-gnn-1hop.rigorous.eps4-*"))
    before = trained(finished)
    (cell / "seed=1.json").unlink()
    (cell / "result.json").unlink()
    files = (finished.folder / "results/tiny/runs/train").glob("*.json")
    (file,) = [path for path in files if cell.name in path.read_text()]
    command = [sys.executable, "-m", "dpgraph", "train", str(file.relative_to(finished.folder)), "--device", "cpu"]
    run = subprocess.run(command, cwd=finished.folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    after = trained(finished)
    assert [name for name in before if after[name] != before[name]] == [f"{cell.name}/seed=1.json"]
    assert finished.jobs(targets=("cells",)) == {}


def test_changed_code_reruns_its_stages_and_a_touched_file_does_not(finished):
    link = finished.folder / "src"
    target = link.resolve()
    link.unlink()
    shutil.copytree(target, link)
    assert finished.jobs() == {}  # the same contents, younger
    layer = link / "dpgraph/engine/models/message_passing.py"
    layer.write_text(layer.read_text() + "# another layer\n")
    jobs = finished.jobs()
    assert jobs["train"] == 2
    assert {"aggregate", "audit", "artefacts_daigavane", "claims"} <= set(jobs)
    assert not {"fetch", "preprocess", "calibrate"} & set(jobs)


@pytest.mark.slow
def test_touched_files_train_nothing(finished):
    before = {name: (finished.folder / "results/tiny/cells" / name).read_bytes() for name in trained(finished)}
    later = time.time() + 3600
    for path in sorted((finished.folder / "results").rglob("*"), key=lambda path: path.name):
        later += 0.01
        if path.is_file():
            os.utime(path, (later, later))
    assert finished.snakemake("--touch").returncode == 0
    assert finished.jobs(targets=("cells",)) == {}
    assert finished.snakemake().returncode == 0
    assert {name: (finished.folder / "results/tiny/cells" / name).read_bytes() for name in before} == before


SHORT = """
name: tiny
title: Tiny
note: No number means anything.
demonstration: true
seeds: 2
tasks:
  sbm: {label: demo SBM, task: {dataset: demo-sbm}}
papers:
  daigavane:
    rules:
      - set: {model: {width: 4}, training: {learning_rate: 0.02, sampling_rate: 0.1, steps: 5}}
    artefacts:
      table1:
        - {methods: [mlp], tasks: [sbm]}
"""
RUN = "            outcome = trainer.run(job, observe)\n"
FULL = """            import os
            if seed == 1 and os.environ["DPGRAPH_ATTEMPT"] in os.environ.get("FULL", ""):
                raise MemoryError("no room")
"""


@pytest.mark.slow
def test_a_seed_that_ran_out_of_memory_is_tried_again_by_its_job_and_by_the_next_run(workflow):
    """Attempts in which the second seed has no memory are named in FULL."""
    (workflow.folder / "workflow/suites/tiny.yaml").write_text(SHORT)
    sources = workflow.folder / "src"
    package = sources.resolve()
    sources.unlink()
    shutil.copytree(package, sources, ignore=shutil.ignore_patterns("__pycache__"))
    execute = sources / "dpgraph/pipeline/execute.py"
    text = execute.read_text()
    assert text.count(RUN) == 1
    execute.write_text(text.replace(RUN, FULL + RUN))
    table = workflow.folder / "results/tiny/results.parquet"

    def run(full, *options):
        ended = workflow.snakemake(*options, targets=(str(table.relative_to(workflow.folder)),), FULL=full)
        assert ended.returncode == 0, ended.stderr
        rows = pd.read_parquet(table)
        return rows[rows["seed"] == 1].iloc[0]["reason"], ended.stdout + ended.stderr

    reason, told = run("1 2", "--retries", "1")
    assert reason == "out of memory: no room"
    assert "attempt 1 of 2: 1 of 1 ran out of memory" in told
    first = trained(workflow)
    assert run("1", "--retries", "1")[0] == ""
    assert [name.rpartition("/")[2] for name, when in trained(workflow).items() if when != first[name]] == [
        "seed=1.json"
    ]
    assert "Nothing to be done" in run("1")[1]
