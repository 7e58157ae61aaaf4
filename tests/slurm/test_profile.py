"""The literal `snakemake --profile slurm` from nothing to the report."""

from __future__ import annotations

import os

import pytest

from tests.slurm.conftest import workflow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The tiny suite, run on Slurm from nothing to its report."""
    run = workflow(tmp_path_factory.mktemp("finished"), "tiny", literal=True)
    # No accounting here: this replaces the program that the executor queries for accounts.
    programs = tmp_path_factory.mktemp("bin")
    (programs / "sacctmgr").write_text("#!/bin/sh\necho dpgraph-tests\n")
    (programs / "sacctmgr").chmod(0o755)
    run.environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    run.profile(
        **{
            "default-resources": {
                "slurm_partition": "cpu",
                "slurm_account": "dpgraph-tests",
                "runtime": 30,
                "mem_mb": 1500,
            },
            "set-resources": {"train": {"slurm_partition": "gpu", "constraint": "small", "gpu": 1}},
        }
    )
    assert run() == 0, run.output[-5000:]
    return run


def test_the_report_is_there_and_the_queue_empty(finished):
    assert (finished.folder / "results/tiny/report.html").stat().st_size > 10_000
    assert (finished.folder / "results/tiny/tables/daigavane/table1.md").is_file()
    assert finished.queue() == []
    assert finished("--dry-run") == 0
    assert "Nothing to be done" in finished.output


def test_every_job_ran_once(finished):
    assert {job["JobState"] for job in finished.jobs()} == {"COMPLETED"}
    assert not list((finished.folder / ".snakemake/slurm_logs").rglob("*.log"))  # kept for failed jobs only
    comments = [job["Comment"] for job in finished.jobs()]
    assert len(comments) == len(set(comments))
    rules = {comment.removeprefix("rule_").split("_wildcards_")[0] for comment in comments}
    made = {"fetch", "preprocess", "calibrate", "train", "audit", "aggregate", "artefacts_daigavane", "claims"}
    assert rules >= made


def test_cells_share_jobs(finished):
    cells = list((finished.folder / "results/tiny/cells").glob("*/result.json"))
    assert len(cells) == 7
    assert len(finished.jobs("train")) == 2  # one of each data set
    assert len(finished.jobs("calibrate")) == 2  # one for each place of the config


def test_what_the_profile_asks_for_reaches_the_jobs(finished):
    for job in finished.jobs():
        train = job["Comment"].startswith("rule_train")
        assert job["Account"] == "dpgraph-tests"
        assert job["JobName"].startswith("dpgraph_")
        assert job["Partition"] == ("gpu" if train else "cpu")
        assert job["Features"] == ("small" if train else "(null)")
        assert job.get("TresPerJob", "") == ("gres:gpu:1" if train else "")
    (aggregate,) = finished.jobs("aggregate")
    assert (aggregate["TimeLimit"], aggregate["MinMemoryNode"]) == ("00:30:00", "1500M")


def test_memory_and_time_follow_the_data(finished):
    """ogbn-arxiv is larger than the demonstration's graph; the defaults do not change what the rule requests."""
    memory = {job["Comment"].split("_wildcards_")[1].split(".")[0]: int(job["MinMemoryNode"].removesuffix("M"))
              for job in finished.jobs("train")}  # fmt: skip
    assert memory["ogbn-arxiv-transductive"] > memory["demo-sbm-transductive"] > 1000
