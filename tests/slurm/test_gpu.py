"""Jobs that ask for a GPU."""

from __future__ import annotations

import importlib

from tests.slurm.cluster import IMAGES, TEXTS, VOTES


def test_training_jobs_ask_for_a_gpu_and_an_error_names_the_log_that_holds_the_cause(run, undisturbed):
    """With device=cuda and no setting of the profile. Here the GPUs can only be counted: the jobs end at once."""
    there = importlib.import_module("torch").cuda.is_available()  # not at the top: without Slurm nothing here needs it
    tasks = (TEXTS, IMAGES, VOTES)
    markers = [undisturbed.marker(task) for task in tasks]
    ended = run("--retries", "0", "--config", "device=cuda", "--", *markers)
    assert ended == (0 if there else 1), run.output[-5000:]
    jobs = run.jobs("train")
    assert {job["Comment"].split("_wildcards_")[1].split(".")[0] for job in jobs} == set(tasks)
    assert [job.get("TresPerJob") for job in jobs] == ["gres:gpu:1"] * 3
    assert [job["JobId"] for job in run.jobs() if "TresPerJob" in job] == [job["JobId"] for job in jobs]
    assert run.queue() == []
    if there:
        return
    assert {job["JobState"] for job in jobs} == {"FAILED"}
    for marker in markers:
        log = f"logs/failures/train/{marker.rsplit('/', 1)[1].removesuffix('.json')}.log"
        assert log in run.output
        last = (run.folder / log).read_text().splitlines()[-1]
        assert last.startswith("error: ")
        assert "device=cuda: expected cpu or auto: this machine has no CUDA device" in last
