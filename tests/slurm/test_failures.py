"""What becomes of a run when the cluster fails it: each failure is made to happen while a job trains."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Sequence

import numpy as np
import pytest

from tests.slurm.cluster import Process, Run, kill, kill_job, slurm, start, stop, wait_for

TASKS = SBM, DISJOINT, DIGITS = "demo-sbm-transductive", "demo-sbm-disjoint", "demo-digits-transductive"

# as docs/cluster.md has it: the jobs that were submitted from this folder
CANCEL_ORPHANS = """
squeue --me --noheader --format "%i %Z" | awk -v here="$(pwd -P)" '$2 == here {print $1}' | xargs -r scancel
"""


def results(run: Run, task: str) -> dict[str, object]:
    """Metrics, predictions and privacy statements of the task's cells, by file name."""
    cells = run.folder / "results/failures/cells"
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


def nothing_lost(run: Run, undisturbed: Run, *caught: Process, tasks: Sequence[str] = TASKS) -> None:
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


def test_lost_jobs_are_submitted_again(run, undisturbed):
    """First every job has too little memory. Then one is cancelled, one runs out of time, and the third sees Slurm's
    daemons go and come back.
    """
    run.profile(**{"set-resources": {"train": {"mem_mb": "300 * 8 ** (attempt - 1)", "gpu": 1}}})
    run.start("--", "cells")
    cancelled, late, peaceful = (run.catch(task) for task in TASKS)
    devices = [process.environment["CUDA_VISIBLE_DEVICES"] for process in (cancelled, late, peaceful)]
    assert len(set(devices)) == 3
    assert set(devices) < set("0123")
    kill("slurmd")
    start("slurmd")
    stop("slurmctld")
    start("slurmctld")
    slurm("scancel", cancelled.job)
    # limits are in minutes, and nobody wants to wait for one
    slurm("scontrol", "update", f"JobId={late.job}", "EndTime=now+1")
    peaceful.go_on()
    assert run.end() == 0, run.output[-5000:]
    assert states(run, SBM) == ["FAILED", "CANCELLED", "COMPLETED"]
    assert states(run, DISJOINT) == ["FAILED", "TIMEOUT", "COMPLETED"]
    assert states(run, DIGITS) == ["FAILED", "COMPLETED"]
    first, _, last = run.jobs(f"train_wildcards_{SBM}.")
    assert [job["MinMemoryNode"] for job in (first, last)] == ["300M", "19200M"]
    minutes = [int(job["TimeLimit"].split(":")[1]) for job in (first, last)]
    assert minutes[1] == 3 * minutes[0]
    cause = next((run.folder / ".snakemake/slurm_logs").rglob(f"{first['JobId']}.log"))
    assert str(cause) in run.output
    assert "exceeded memory limit" in cause.read_text()
    nothing_lost(run, undisturbed, cancelled, late, peaceful)


def test_a_lost_node_s_job_is_queued_again_by_slurm(run, undisturbed):
    run.start("--", undisturbed.marker(DIGITS))
    caught = run.catch(DIGITS)
    kill("slurmd")
    kill_job(caught.job)
    wait_for("the node to be down", lambda: slurm("sinfo", "--noheader", "--format=%t").startswith("down"))
    start("slurmd")
    assert run.end() == 0, run.output[-5000:]
    (job,) = run.jobs("train")
    assert (job["JobId"], job["JobState"], job["Restarts"]) == (caught.job, "COMPLETED", "1")
    nothing_lost(run, undisturbed, caught, tasks=(DIGITS,))


def test_a_killed_snakemake_is_unlocked_and_its_jobs_are_cancelled(run, undisturbed):
    marker = undisturbed.marker(DIGITS)
    run.start("--", marker)
    caught = run.catch(DIGITS)
    run.kill()
    assert run("--", marker) == 1
    assert "--unlock" in run.output
    assert run("--unlock") == 0
    assert run.queue() == [caught.job]
    subprocess.run(["bash", "-c", CANCEL_ORPHANS], cwd=run.folder, check=True, timeout=60)
    wait_for("the end of the orphans", lambda: not run.queue())
    assert run("--", marker) == 0, run.output[-5000:]
    assert states(run, DIGITS) == ["CANCELLED", "COMPLETED"]
    nothing_lost(run, undisturbed, caught, tasks=(DIGITS,))


def test_the_error_names_the_log_that_holds_the_cause(run, undisturbed):
    """The jobs request a GPU automatically, and find one that can only be counted."""
    if importlib.import_module("torch").cuda.is_available():  # not at the top: without Slurm nothing here needs it
        pytest.skip("a job with a real GPU does not fail")
    marker = undisturbed.marker(DIGITS)
    assert run("--retries", "0", "--config", "device=cuda", "--", marker) == 1
    (job,) = run.jobs("train")
    assert (job["JobState"], job["TresPerJob"]) == ("FAILED", "gres:gpu:1")
    log = f"logs/failures/train/{marker.rsplit('/', 1)[1].removesuffix('.json')}.log"
    assert log in run.output
    last = (run.folder / log).read_text().splitlines()[-1]
    assert last.startswith("error: ")
    assert "device=cuda: expected cpu or auto: this machine has no CUDA device" in last
    assert run.queue() == []
