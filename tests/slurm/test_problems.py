"""Every problem from nothing to its tables, by jobs that nothing disturbs."""

from __future__ import annotations

import json

import pytest

from tests.slurm.conftest import workflow

TABLES = ("huang/table1-mrr", "huang/table2", "zhang-ch3/table3.1")


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    run = workflow(tmp_path_factory.mktemp("problems"), "problems")
    run.environment["DPGRAPH_CACHE"] = str(run.folder / "cache")
    tables = [f"results/problems/tables/{table}.md" for table in TABLES]
    assert run("cells", *tables) == 0, run.output[-5000:]
    return run


def records(run, task):
    return {
        path.parent.name: json.loads(path.read_text()) for path in (run.results / "cells").glob(f"{task}*/result.json")
    }


def test_every_task_is_trained_by_a_job_of_its_own(problems):
    for stage in ("fetch", "preprocess", "calibrate", "train", "table"):
        assert {job["JobState"] for job in problems.jobs(stage)} == {"COMPLETED"}
    tasks = sorted(job["Comment"].split("_wildcards_")[1].split(".")[0] for job in problems.jobs("train"))
    assert tasks == ["demo-images-transductive", "demo-relations-transductive", "own-texts-transductive"]


def test_encoders_of_relations_are_trained(problems):
    found = records(problems, "demo-relations")
    assert len(found) == 2
    (private,) = [record for name, record in found.items() if "dp-relation-encoder" in name]
    assert [seed["status"] for seed in private["seeds"]] == ["ok", "ok"]


def test_texts_of_ones_own_are_read_encoded_and_trained_on(problems):
    """Two files of texts and relations to a table, with all that their reader leaves out counted."""
    (stored,) = problems.folder.glob("data/graphs/own-texts/*/graph.json")
    counted = json.loads(stored.read_text())["meta"]["counted"]["graph"]
    assert counted == {"entities": 200, "listed_relations": 403, "unknown_id": 1, "self_relation": 1, "duplicate": 1,
                       "relations": 400, "empty_texts": 1, "without_relation": 0}  # fmt: skip
    assert [record["status"] for record in records(problems, "own-texts").values()] == ["ok"] * 3
    table = (problems.results / "tables/huang/table2.md").read_text()
    assert "of 403 listed relations 1 name an unknown id" in table


def test_teachers_and_students_of_images_are_trained(problems):
    """Both students learn from one release of the same teachers, whose votes are kept in the job's own folder."""
    found = list(records(problems, "demo-images").values())
    assert [[seed["status"] for seed in record["seeds"]] for record in found] == [["ok", "ok"]] * 2
    votes = list((problems.folder / "cache").glob("teachers/*/votes.npy"))
    assert len(votes) == 2  # of two splits, each shared by both students
    table = (problems.results / "tables/zhang-ch3/table3.1.md").read_text()
    assert "training-record" in table
