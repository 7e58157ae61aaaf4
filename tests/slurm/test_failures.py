"""What becomes of a run when the cluster fails it: each failure is made to happen while a job trains."""

from __future__ import annotations

import importlib
import subprocess

import pytest

from tests.slurm.cluster import kill, kill_job, slurm, start, stop, wait_for
from tests.slurm.ends import nothing_lost, states

TASKS = SBM, DISJOINT, DIGITS = "demo-sbm-transductive", "demo-sbm-disjoint", "demo-digits-transductive"

# as docs/cluster.md has it: the jobs that were submitted from this folder
CANCEL_ORPHANS = """
squeue --me --noheader --format "%i %Z" | awk -v here="$(pwd -P)" '$2 == here {print $1}' | xargs -r scancel
"""


def test_lost_jobs_are_submitted_again(run, undisturbed):
    """First every job has too little memory. Then one is cancelled, one runs out of time, and the third sees Slurm's
    daemons go and come back.
    """
    run.profile(**{"set-resources": {"train": {"mem_mb": "300 * 8 ** (attempt - 1)", "gpu": 1}}})
    run.start("--", "cells")
    cancelled, late, peaceful = run.catch(*TASKS)
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
    nothing_lost(run, undisturbed, cancelled, late, peaceful, tasks=TASKS)


def test_a_lost_node_s_job_is_queued_again_by_slurm(run, undisturbed):
    run.start("--", undisturbed.marker(DIGITS))
    (caught,) = run.catch(DIGITS)
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
    (caught,) = run.catch(DIGITS)
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
