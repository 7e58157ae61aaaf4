"""Runs of `snakemake --profile slurm` on the Slurm that start.sh has started; without it these tests are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import FAILURES, IMAGES, PROBLEMS, RELATIONS, TEXTS, Run, write_texts
from tests.workflow.conftest import copy_workflow

# a test waits for jobs on a machine that may be busy; nothing here is measured
POLLING = {"slurm-init-seconds-before-status-checks": 10, "latency-wait": 20}


def pytest_collection_modifyitems(items):
    if "DPGRAPH_SLURM" in os.environ:
        return
    skip = pytest.mark.skip(reason="no Slurm has been started for the tests: make test-slurm does")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


def workflow(folder: Path, suite: str) -> Run:
    copy_workflow(folder)
    config = folder / "config.yaml"
    text = config.read_text().replace("suite: demo", f"suite: {suite}", 1)
    if suite == "texts":
        text = text.replace("registry: []", "registry: [own]", 1)
        write_texts(folder / "own")
    config.write_text(text)
    suites = {"failures": FAILURES, "images": IMAGES, "problems": PROBLEMS, "relations": RELATIONS, "texts": TEXTS}
    for name, text in suites.items():
        (folder / f"workflow/suites/{name}.yaml").write_text(text)
    run = Run(folder.resolve(), suite)
    run.profile(**POLLING)
    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The tiny suite, run on Slurm from nothing to its report."""
    run = workflow(tmp_path_factory.mktemp("finished"), "tiny")
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


def run_locally(folder: Path, suite: str) -> Run:
    """The suite, run without Slurm: what every run that meets a failure must come to."""
    run = workflow(folder, suite)
    local = [sys.executable, "-m", "snakemake", "--cores", "2", "--", "cells"]
    environment = {**os.environ, "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(local, cwd=run.folder, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return run


def before_training(finished: Run, folder: Path) -> Run:
    """The same with its graphs and calibrations, and no cell."""
    copy = Run(folder.resolve() / "run", finished.suite)
    shutil.copytree(finished.folder, copy.folder, symlinks=True)
    for name in ("cells", "trained"):
        shutil.rmtree(copy.results / name)
    return copy


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    return run_locally(tmp_path_factory.mktemp("undisturbed"), "failures")


@pytest.fixture
def run(undisturbed, tmp_path):
    return before_training(undisturbed, tmp_path)
