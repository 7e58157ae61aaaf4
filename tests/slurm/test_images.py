"""The problem of images, and teachers of PATE, on Slurm."""

from __future__ import annotations

import json

from tests.slurm.conftest import workflow


def test_teachers_and_students_of_images_are_trained_by_a_job(tmp_path):
    """Both students learn from one release of the same teachers, whose votes are kept in the job's own folder."""
    run = workflow(tmp_path, "images")
    cache = tmp_path.resolve() / "cache"
    run.environment["DPGRAPH_CACHE"] = str(cache)
    assert run("cells", "tables") == 0, run.output[-5000:]
    for stage in ("download", "preprocess", "calibrate", "train"):
        assert {job["JobState"] for job in run.jobs(stage)} == {"COMPLETED"}
    assert all("images" in job["Comment"] for job in run.jobs("train"))
    records = [json.loads(path.read_text()) for path in run.folder.glob("results/images/cells/*/result.json")]
    assert len(records) == 2
    assert [[seed["status"] for seed in record["seeds"]] for record in records] == [["ok", "ok"]] * 2
    assert len(list(cache.glob("teachers/*/votes.npy"))) == 2  # of two splits, each shared by both students
    table = (run.folder / "results/images/tables/zhang-ch3/table3.1.md").read_text()
    assert "record-replace" in table
