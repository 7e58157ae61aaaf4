"""Jobs that are killed, interrupted, doubled: what was done stays, the rest comes out as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dpgraph.cli import main
from dpgraph.config.cell import Cell
from dpgraph.core.files import LOCK, UNFINISHED, locked
from dpgraph.data.store import save_graph
from tests.contract.cells import cell as toy_cell
from tests.contract.cells import pagerank_cell, split_cell
from tests.contract.conftest import toy_graph
from tests.workflow.forked import python

STEPS = 40
CELLS = {
    "dp-gnn": toy_cell("dp-gnn", 1, "rigorous", steps=STEPS, evaluations=4),
    "dp-residual": toy_cell("dp-residual", 1, "rigorous", steps=STEPS, evaluations=4),
    "dp-subgraph": split_cell("dp-subgraph", "rigorous", 3, steps=STEPS, evaluations=4),
    "dp-appr": pagerank_cell("dp-appr", "rigorous", "gaussian", training={"steps": STEPS}),
}
CELLS = {name: cell.model_copy(update={"seeds": (0, 1)}) for name, cell in CELLS.items()}


@dataclass(frozen=True)
class Bench:
    """A toy graph, and the options of `train` for a cell with its calibration."""

    folder: Path

    def options(self, cell: Cell, out: Path) -> list[str]:
        privacy = self.folder / f"{cell.calibration_key}.json"
        common = ["--cell", cell.model_dump_json(), "--graph", str(self.folder / "graph")]
        if cell.privacy is None:
            return ["train", *common, "--out", str(out), "--device", "cpu"]
        if not privacy.exists():
            assert main(["calibrate", *common, "--out", str(privacy)]) == 0
        return ["train", *common, "--out", str(out), "--calibration", str(privacy), "--device", "cpu"]

    def finished(self, cell: Cell) -> Path:
        """Folder of an undisturbed run."""
        out = self.folder / cell.slug
        if not out.exists():
            assert main(self.options(cell, out)) == 0
        return out


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    save_graph(toy_graph(), folder / "graph")
    return Bench(folder)


def record(out: Path) -> dict:
    """What a result says of the science: no times, no machine."""
    value = json.loads((out / "result.json").read_text())
    seeds = [{name: seed[name] for name in ("seed", "status", "reason", "metrics")} for seed in value["seeds"]]
    return {name: value[name] for name in ("cell", "status", "reason", "statement", "budgets")} | {"seeds": seeds}


def arrays(out: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in out.glob("*.npy")}
    for path in out.glob("*.npz"):
        with np.load(path) as content:
            found |= {f"{path.name} {name}": content[name].tobytes() for name in content.files}
    return found


def assert_same(out: Path, expected: Path) -> None:
    """Bit by bit, and nothing lies about."""
    assert record(out) == record(expected)
    assert arrays(out) == arrays(expected)
    assert sorted(os.listdir(out)) == sorted(os.listdir(expected))


def resumed_at(out: Path) -> list[int]:
    return [seed["notes"]["resumed_at"] for seed in json.loads((out / "result.json").read_text())["seeds"]]


class Nursery:
    """Starts processes of `python -m dpgraph` that need no second to import torch: it has done so, and forks."""

    def __init__(self, logs: Path) -> None:
        environment = {**os.environ, "DPGRAPH_CHECKPOINT_SECONDS": "0", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [python(), "-m", "tests.workflow.nursery"],
            env=environment,
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.logs, self.started = logs, 0

    def _ask(self, **order) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, arguments: list[str], **kill) -> tuple[int, Path]:
        """(process id, file of its messages); `saves`: killed after so many checkpoints, `before`: before this file."""
        self.started += 1
        log = self.logs / f"{self.started}.log"
        return self._ask(arguments=arguments, log=str(log), **kill), log

    def wait(self, pid: int) -> int:
        return self._ask(wait=pid)

    def run(self, arguments: list[str], **kill) -> int:
        return self.wait(self.start(arguments, **kill)[0])


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    found = Nursery(tmp_path_factory.mktemp("logs"))
    yield found
    found.process.stdin.close()
    found.process.stdout.close()
    found.process.wait(60)


@pytest.mark.parametrize("name", CELLS)
def test_a_killed_training_goes_on_where_it_stopped_and_ends_the_same(bench, nursery, tmp_path, name):
    """Killed in the second seed: the first one is not trained again."""
    cell, out = CELLS[name], tmp_path / "out"
    assert nursery.run(bench.options(cell, out), saves=STEPS - 1 + 11) == -signal.SIGKILL
    assert not (out / "result.json").exists()
    assert list(out.glob("*.checkpoint"))
    first = out / "seed=0.json"
    before = first.stat().st_mtime_ns
    assert main(bench.options(cell, out)) == 0
    assert_same(out, bench.finished(cell))
    assert resumed_at(out) == [0, 11]
    assert first.stat().st_mtime_ns == before
    statement = record(out)["statement"]
    assert statement["steps"] == STEPS  # each once, in whatever attempt
    assert statement["rigorous"]["epsilon"] <= 6


@pytest.mark.parametrize("file", ["seed=1.json", "seed=0.predictions.npy", "result.json"])
def test_killed_while_writing_leaves_nothing_that_counts(bench, nursery, tmp_path, file):
    cell, out = CELLS["dp-gnn"], tmp_path / "out"
    assert nursery.run(bench.options(cell, out), before=file) == -signal.SIGKILL
    assert not (out / file).exists()
    assert list(out.glob(".unfinished.*"))
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("seed=?.json")}
    assert main(bench.options(cell, out)) == 0
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert_same(out, bench.finished(cell))
    if file != "result.json":  # the checkpoint outlives the training until its results are there
        assert max(resumed_at(out)) == STEPS - 1


def until(condition) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def checkpoints(out: Path) -> list[str]:
    return [path.name for path in out.glob("*.checkpoint") if not path.name.startswith(".")]


LONG = {
    "kipf-gcn": split_cell("kipf-gcn", None, 3, steps=10**6).model_copy(update={"seeds": (0, 1)}),
    "gnn": toy_cell("gnn", 1, None, steps=10**6).model_copy(update={"seeds": (0, 1)}),
}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_ended_training_says_so_in_one_line_and_keeps_its_checkpoint(bench, nursery, tmp_path, number, status):
    pid, log = nursery.start(bench.options(LONG["kipf-gcn"], tmp_path))
    until(lambda: checkpoints(tmp_path))
    os.kill(pid, number)
    assert nursery.wait(pid) == status
    text = log.read_text()
    name = signal.Signals(number).name
    assert text.splitlines()[-1] == f"error: ended by {name}: finished work is kept, run again to resume"
    assert "Traceback" not in text
    # a temporary file may stay where the signal came between two lines; the next job sweeps it away
    left = [name for name in os.listdir(tmp_path) if not name.startswith((UNFINISHED, LOCK))]
    assert left == checkpoints(tmp_path)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")
def test_workers_end_with_a_killed_parent(bench, nursery, tmp_path):
    pid, _ = nursery.start([*bench.options(LONG["gnn"], tmp_path), "--workers", "2"])
    until(lambda: checkpoints(tmp_path))
    workers = children(pid)
    assert len(workers) >= 2
    os.kill(pid, signal.SIGKILL)
    assert nursery.wait(pid) == -signal.SIGKILL
    until(lambda: not any(map(alive, workers)))
    with locked(tmp_path):
        pass


def test_two_trainings_of_one_cell_wait_for_each_other(bench, nursery, tmp_path):
    """Both are held back until both are there; then one trains and the other finds its seeds."""
    cell, out = CELLS["dp-gnn"], tmp_path / "out"
    with locked(out):
        both = [nursery.start(bench.options(cell, out)) for _ in range(2)]
        until(lambda: all(log.exists() and "waiting for" in log.read_text() for _, log in both))
        assert os.listdir(out) == [LOCK]
    assert [nursery.wait(pid) for pid, _ in both] == [0, 0]
    texts = [log.read_text() for _, log in both]
    assert all(f"{out}: waiting for process " in text for text in texts)
    assert sorted("seeds all there" in text for text in texts) == [False, True]
    assert_same(out, bench.finished(cell))
