"""Jobs that lack memory, are cancelled, killed or run out of time, while Slurm's daemons restart."""

from __future__ import annotations

import json
import os
import signal

from tests.slurm.cluster import DIGITS, IMAGES, TASKS, TEXTS, VOTES, kill, slurm, start, stop
from tests.slurm.ends import nothing_lost, states


def resumed(run, task):
    """Return the steps after which seeds of the task went on in another process; 0: none was needed."""
    records = [json.loads(path.read_text()) for path in (run.results / "cells").glob(f"{task}.*/result.json")]
    return [seed["notes"]["resumed_at"] for record in records for seed in record["seeds"]]


def test_lost_jobs_are_submitted_again_and_go_on_where_they_were(run, undisturbed):
    """First every job has too little memory. Then all see Slurm's daemons go and come back; one is cancelled, one
    killed, one runs out of time, and the last is left alone.
    """
    memory = {"mem_mb": "300 * 8 ** (attempt - 1)", "gpu": 1}
    run.profile(**{"set-resources": {"train": {**memory, "slurm_partition": "restarted"}}})
    run.environment["DPGRAPH_CHECKPOINT_SECONDS"] = "0"
    run.start("--", "cells")
    caught = run.catch(*TASKS, at_checkpoint=True)
    cancelled, killed, late, peaceful = caught
    devices = [process.environment["CUDA_VISIBLE_DEVICES"] for process in caught]
    assert sorted(devices) == list("0123")
    kill("slurmd.restarted")
    start("slurmd.restarted")
    stop("slurmctld")
    start("slurmctld")
    slurm("scancel", cancelled.job)
    os.kill(killed.pid, signal.SIGKILL)
    # limits are in minutes, and nobody wants to wait for one
    slurm("scontrol", "update", f"JobId={late.job}", "EndTime=now+1")
    peaceful.go_on()
    assert run.end() == 0, run.output[-5000:]
    ends = {
        TEXTS: ["FAILED", "CANCELLED", "COMPLETED"],
        IMAGES: ["FAILED", "FAILED", "COMPLETED"],
        VOTES: ["FAILED", "TIMEOUT", "COMPLETED"],
        DIGITS: ["FAILED", "COMPLETED"],
    }
    for task, expected in ends.items():
        assert states(run, task) == expected
        jobs = run.jobs(f"train_wildcards_{task}.")
        assert [job["MinMemoryNode"] for job in jobs] == ["300M", "2400M", "19200M"][: len(jobs)]
        assert {job["TresPerJob"] for job in jobs} == {"gres:gpu:1"}
        minutes = [int(job["TimeLimit"].split(":")[1]) for job in jobs]
        assert minutes[-1] == len(jobs) * minutes[0]
        cause = next((run.folder / ".snakemake/slurm_logs").rglob(f"{jobs[0]['JobId']}.log"))
        assert str(cause) in run.output
        assert "exceeded memory limit" in cause.read_text()
        assert (max(resumed(run, task)) > 0) == (task != DIGITS)
        assert max(resumed(undisturbed, task)) == 0
    nothing_lost(run, undisturbed, *caught, tasks=TASKS)
