"""The problem of relations, and its encoders, on Slurm."""

from __future__ import annotations

import json

from tests.slurm.conftest import workflow


def test_an_encoder_is_trained_by_a_job_of_its_own(tmp_path):
    run = workflow(tmp_path, "relations")
    assert run("cells") == 0, run.output[-5000:]
    jobs = run.jobs("train")
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    assert all("relations" in job["Comment"] for job in jobs)
    records = {
        path.parent.name: json.loads(path.read_text())
        for path in run.folder.glob("results/relations/cells/*/result.json")
    }
    assert len(records) == 2
    (private,) = [record for name, record in records.items() if "dp-relation-encoder" in name]
    assert [seed["status"] for seed in private["seeds"]] == ["ok", "ok"]
