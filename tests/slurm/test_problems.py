"""Texts, images and votes on Slurm: GPUs that their jobs ask for, too little memory, and jobs that are lost."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.slurm.cluster import slurm
from tests.slurm.conftest import before_training, run_locally
from tests.slurm.ends import nothing_lost, states

TASKS = TEXTS, IMAGES, VOTES = "demo-relations-transductive", "demo-images-transductive", "demo-sbm-transductive"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run_locally(tmp_path_factory.mktemp("undisturbed"), "problems")


@pytest.fixture
def run(undisturbed, tmp_path):
    return before_training(undisturbed, tmp_path)


def resumed(run, task):
    """Steps after which seeds of the task went on in another process; 0: none was needed."""
    records = [json.loads(path.read_text()) for path in (run.results / "cells").glob(f"{task}.*/result.json")]
    return [seed["notes"]["resumed_at"] for record in records for seed in record["seeds"]]


def test_lost_jobs_of_every_problem_go_on_where_they_were(run, undisturbed):
    """Too little memory first. Of what comes next one job is cancelled, one killed, and one runs out of time."""
    run.profile(**{"set-resources": {"train": {"mem_mb": "300 * 8 ** (attempt - 1)", "gpu": 1}}})
    run.environment["DPGRAPH_CHECKPOINT_SECONDS"] = "0"
    run.start("--", "cells")
    cancelled, killed, late = run.catch(*TASKS, at_checkpoint=True)
    slurm("scancel", cancelled.job)
    os.kill(killed.pid, signal.SIGKILL)
    slurm("scontrol", "update", f"JobId={late.job}", "EndTime=now+1")
    assert run.end() == 0, run.output[-5000:]
    assert states(run, TEXTS) == ["FAILED", "CANCELLED", "COMPLETED"]
    assert states(run, IMAGES) == ["FAILED", "FAILED", "COMPLETED"]
    assert states(run, VOTES) == ["FAILED", "TIMEOUT", "COMPLETED"]
    for task in TASKS:
        jobs = run.jobs(f"train_wildcards_{task}.")
        assert [job["MinMemoryNode"] for job in jobs] == ["300M", "2400M", "19200M"]
        assert [job["TresPerJob"] for job in jobs] == ["gres:gpu:1"] * 3
        cause = next((run.folder / ".snakemake/slurm_logs").rglob(f"{jobs[0]['JobId']}.log"))
        assert "exceeded memory limit" in cause.read_text()
        assert max(resumed(run, task)) > 0
        assert max(resumed(undisturbed, task)) == 0
    nothing_lost(run, undisturbed, cancelled, killed, late, tasks=TASKS)


def test_training_jobs_of_every_problem_ask_for_a_gpu(run, undisturbed):
    """With device=cuda and no setting of the profile. Here the GPUs can only be counted: the jobs end at once."""
    torch = pytest.importorskip("torch")
    markers = [undisturbed.marker(task) for task in TASKS]
    ended = run("--retries", "0", "--config", "device=cuda", "--", *markers)
    assert ended == (0 if torch.cuda.is_available() else 1), run.output[-5000:]
    assert {job["Comment"].split("_wildcards_")[1].split(".")[0] for job in run.jobs("train")} == set(TASKS)
    assert [job.get("TresPerJob") for job in run.jobs("train")] == ["gres:gpu:1"] * 3
    assert [job["JobId"] for job in run.jobs() if "TresPerJob" in job] == [job["JobId"] for job in run.jobs("train")]
