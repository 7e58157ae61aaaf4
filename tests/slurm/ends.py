"""What a run came to, against one that nothing disturbed."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from tests.slurm.cluster import Process, Run


def results(run: Run, task: str) -> dict[str, object]:
    """Metrics, predictions and privacy statements of the task's cells, by file name."""
    cells = run.results / "cells"
    found: dict[str, object] = {}
    for path in cells.glob(f"{task}.*/*"):
        name = str(path.relative_to(cells))
        if path.name.startswith("seed=") and path.suffix == ".json":
            found[name] = json.loads(path.read_text())["record"]["metrics"]
        elif path.suffix == ".npy":
            found[name] = np.load(path).tolist()
        elif path.name == "result.json":
            found[name] = json.loads(path.read_text())["statement"]
    return found


def nothing_lost(run: Run, undisturbed: Run, *caught: Process, tasks: Sequence[str]) -> None:
    for task in tasks:
        expected = results(undisturbed, task)
        assert len(expected) >= 2 * (1 + 2 * 2)  # two cells of two seeds
        assert results(run, task) == expected
        assert (run.folder / undisturbed.marker(task)).is_file()
    for process in caught:
        assert process.trained
        for record, written in process.trained.items():
            assert record.stat().st_mtime_ns == written, f"{record}: trained again"
    assert not list((run.folder / "results").rglob("*.checkpoint"))
    assert run.queue() == []


def states(run: Run, task: str) -> list[str]:
    """How the jobs that train the task ended, in the order of submission."""
    return [job["JobState"] for job in run.jobs(f"train_wildcards_{task}.")]
