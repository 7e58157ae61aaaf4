"""A node that is lost while its job trains."""

from __future__ import annotations

from tests.slurm.cluster import DIGITS, kill, kill_job, slurm, start, wait_for
from tests.slurm.ends import nothing_lost


def test_a_lost_node_s_job_is_queued_again_by_slurm(run, undisturbed):
    run.profile(**{"set-resources": {"train": {"slurm_partition": "lost"}}})
    run.start("--", undisturbed.marker(DIGITS))
    (caught,) = run.catch(DIGITS)
    kill("slurmd.lost")
    kill_job(caught.job)
    node = ("sinfo", "--noheader", "--nodes=lost", "--format=%t")
    wait_for("the node to be down", lambda: slurm(*node).startswith("down"))
    start("slurmd.lost")
    assert run.end() == 0, run.output[-5000:]
    (job,) = run.jobs("train")
    assert (job["JobId"], job["JobState"], job["Restarts"]) == (caught.job, "COMPLETED", "1")
    nothing_lost(run, undisturbed, caught, tasks=(DIGITS,))
