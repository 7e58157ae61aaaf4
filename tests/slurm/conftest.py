"""Runs of `snakemake --profile slurm` on the Slurm that start.sh has started; without it these tests are skipped.

A run mostly waits, so `make test-slurm` starts all of them at once: a file has one, and a worker of pytest-xdist each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import FAILURES, PROBLEMS, Run, write_texts
from tests.workflow.conftest import copy_workflow, make_once

# a test waits for jobs on a machine that may be busy; nothing here is measured
POLLING = {"slurm-init-seconds-before-status-checks": 1, "latency-wait": 20}


def pytest_collection_modifyitems(items):
    if "DPGRAPH_SLURM" in os.environ:
        return
    skip = pytest.mark.skip(reason="no Slurm has been started for the tests: make test-slurm does")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


def workflow(folder: Path, suite: str, *, literal: bool = False) -> Run:
    """Return a run of `suite` in a copy of the workflow in which nothing has run."""
    copy_workflow(folder)
    config = folder / "config.yaml"
    text = config.read_text().replace("suite: demo", f"suite: {suite}", 1)
    if suite == "problems":
        text = text.replace("registry: []", "registry: [own]", 1)
        write_texts(folder / "own")
    config.write_text(text)
    for name, text in {"failures": FAILURES, "problems": PROBLEMS}.items():
        (folder / f"workflow/suites/{name}.yaml").write_text(text)
    run = Run(folder.resolve(), suite, literal)
    run.profile(**POLLING)
    return run


def run_locally(folder: Path) -> None:
    """Run the suite of failures without Slurm: every run that meets a failure must come to the same results."""
    run = workflow(folder, "failures")
    local = [sys.executable, "-m", "snakemake", "--cores", "2", "--", "cells"]
    environment = {**os.environ, "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(local, cwd=run.folder, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The suite of failures, run once for all workers of pytest-xdist; no test may change it."""
    return Run(make_once(tmp_path_factory, "undisturbed", run_locally).resolve(), "failures")


@pytest.fixture
def run(undisturbed, tmp_path):
    """A copy of the undisturbed run with its graphs and calibrations, and no cell."""
    copy = Run(tmp_path.resolve() / "run", undisturbed.suite)
    shutil.copytree(undisturbed.folder, copy.folder, symlinks=True)
    for name in ("cells", "trained"):
        shutil.rmtree(copy.results / name)
    return copy
