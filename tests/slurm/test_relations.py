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


def test_texts_of_ones_own_are_read_encoded_and_trained_on_by_jobs(tmp_path):
    """Two files of texts and relations to a table, with all that their reader leaves out counted."""
    run = workflow(tmp_path, "texts")
    assert run("cells", "tables") == 0, run.output[-5000:]
    for stage in ("preprocess", "train"):
        assert {job["JobState"] for job in run.jobs(stage)} == {"COMPLETED"}
    (stored,) = run.folder.glob("data/graphs/own-texts/*/graph.json")
    counted = json.loads(stored.read_text())["meta"]["counted"]["graph"]
    assert counted == {"entities": 200, "listed_relations": 403, "unknown_id": 1, "self_relation": 1, "duplicate": 1,
                       "relations": 400, "empty_texts": 1, "without_relation": 0}  # fmt: skip
    records = [json.loads(path.read_text()) for path in run.folder.glob("results/texts/cells/*/result.json")]
    assert [record["status"] for record in records] == ["ok"] * 3
    table = (run.folder / "results/texts/tables/huang/table2.md").read_text()
    assert "of 403 listed relations 1 name an unknown id" in table
