"""Generated files in OGB's layout are what its reader takes, with the registry's shares; a killed job is run again."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from bench import size
from bench.size import EDGES, measured, write_files
from dpgraph.config.config import Config
from dpgraph.core.errors import UserError
from dpgraph.data.fetch import fetch
from dpgraph.data.readers import ogb
from dpgraph.data.registry import entry
from dpgraph.planning.plan import load_plan

NODES = 2000


@pytest.fixture(scope="module", params=list(EDGES))
def written(request, tmp_path_factory):
    """(registry's entry, mirror, graph as the reader has it) of a miniature."""
    mirror, raw = tmp_path_factory.mktemp("mirror"), tmp_path_factory.mktemp("raw")
    write_files(request.param, mirror, NODES)
    fetch(request.param, raw, mirrors=[mirror])
    known = entry(request.param)
    return known, mirror, ogb.read(raw, **known.options)


def test_the_files_have_the_registry_s_shape(written):
    known, _, graph = written
    expected = known.expected
    assert graph.num_nodes == NODES
    assert graph.features.shape == (NODES, expected.features)
    assert graph.features.min() < 0 < graph.features.max()
    assert graph.labels.min() >= 0
    assert graph.labels.max() < expected.classes
    shares = np.bincount(graph.split, minlength=3) / NODES
    assert shares == pytest.approx(np.asarray(expected.split) / sum(expected.split), abs=1e-3)
    assert len(graph.symmetric[1]) / NODES == pytest.approx(expected.mean_degree, rel=0.03)  # small classes are dense


def test_files_that_are_there_are_kept(written):
    known, mirror, _ = written
    paths = [mirror / file.sources[0].mirror for file in known.files]
    before = [path.stat().st_mtime_ns for path in paths]
    name = next(name for name in EDGES if entry(name) == known)
    assert write_files(name, mirror, NODES) == paths
    assert [path.stat().st_mtime_ns for path in paths] == before


@pytest.mark.parametrize(
    ("dataset", "nodes", "message"),
    [("ogbn-arxiv", None, "dataset=ogbn-arxiv"), ("ogbn-mag", 999, "nodes=999"), ("ogbn-mag", 10**9, "nodes=")],
)
def test_what_cannot_be_generated_is_refused(dataset, nodes, message, tmp_path):
    with pytest.raises(UserError, match=message):
        write_files(dataset, tmp_path, nodes)


def test_every_stage_of_every_task_is_a_job(tmp_path):
    plan = load_plan(Config(suite="size", mirrors=(str(tmp_path),)))
    jobs = [(stage, what) for stage, what, _ in size._jobs(plan)]
    stages = [stage for stage, _ in jobs]
    assert list(dict.fromkeys(stages)) == ["files", "download", "preprocess", "calibrate", "train", "aggregate"]
    tasks = {cell.task.folder for cell in plan.cells.values()}
    assert {what for stage, what in jobs if stage == "preprocess"} == tasks
    trained = [what for stage, what in jobs if stage == "train"]
    for task in tasks:
        methods = ", ".join(what.partition(": ")[2] for what in trained if what.startswith(f"{task}: "))
        assert {"dp-mlp", "dp-gcn-1", "votes"} <= set(methods.split(", "))


def test_a_killed_job_is_run_again(tmp_path, monkeypatch):
    """The job, and a process that it started, die; the row is the second run."""
    started = tmp_path / "started"
    script = (
        f"import pathlib, subprocess, sys, time; p = pathlib.Path({str(started)!r})\n"
        "if not p.exists():\n"
        "    p.write_text(str(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid))\n"
        "    time.sleep(600)"
    )
    monkeypatch.setattr(size, "load_plan", lambda config: None)
    monkeypatch.setattr(size, "_jobs", lambda plan: [("train", "a", [sys.executable, "-c", script])])
    pid: list[int] = []
    real = size.measured

    def noted(command, limit=None):
        pid.extend([int(started.read_text())] if limit is None else [])
        return real(command, limit)

    communicate = subprocess.Popen.communicate

    def limited(process, given=None, timeout=None):
        """Time is up once the job has begun its own process, however busy the machine is."""
        if timeout is None:
            return communicate(process, given)
        assert timeout == 2.0
        while not (started.is_file() and started.read_text()):
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", limited)
    monkeypatch.setattr(size, "measured", noted)
    rows = size.bench(tmp_path / "size.csv", tmp_path / "work", kill_after=2.0)
    assert rows[0]["killed_after"] == 2.0
    with pytest.raises(ProcessLookupError):
        _alive(pid[0])
    with (tmp_path / "size.csv").open(encoding="utf-8") as file:
        assert [row["stage"] for row in csv.DictReader(file)] == ["train"]
    monkeypatch.setattr(size, "measured", None)  # the row that is there is kept
    assert size.bench(tmp_path / "size.csv", tmp_path / "work")[0]["what"] == "a"


def _alive(pid: int) -> None:
    """Raises ProcessLookupError unless the process runs; a zombie does not."""
    state = ""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    if state == "Z":
        raise ProcessLookupError(pid)
    os.kill(pid, 0)


def test_measured():
    found = measured([sys.executable, "-c", "x = bytearray(200 * 2**20)"])
    assert 200 < found["peak_mib"] < 400
    assert 0 < found["cpu_seconds"] <= 100 * found["seconds"]
    with pytest.raises(UserError, match="exit status 3: so it is"):
        measured([sys.executable, "-c", "import sys; print('so it is'); sys.exit(3)"])
