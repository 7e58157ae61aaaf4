"""A copy of the workflow in a temporary folder, with a suite that runs in less than a minute."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpgraph.planning.cost import FILE as MEASURED
from tests.workflow.forked import python

ROOT = Path(__file__).resolve().parents[2]

# all audits take half a minute: tests/audits runs each of them, and a suite of the tests one
ALL_AUDITS = "dpgraph audit all {params.more} --out"
ONE_AUDIT = "dpgraph audit votes --trials 500 --out"

TINY = """
name: tiny
title: Tiny suite of the tests
note: Every stage in a minute; no number means anything.
demonstration: true
seeds: 2
tasks:
  sbm: {label: demo SBM, task: {dataset: demo-sbm}}
  sbm-disjoint: {label: "demo SBM, disjoint", task: {dataset: demo-sbm, setting: disjoint}}
  arxiv: {label: ogbn-arxiv, published: ogbn-arxiv, task: {dataset: ogbn-arxiv}}
papers:
  daigavane:
    rules:
      - set:
          model: {width: 16}
          training: {learning_rate: 0.02, sampling_rate: 0.1, steps: 10}
      - {methods: ["dp-*"], set: {privacy: {max_degree: 3, clip_norm: 1.0}}}
    artefacts:
      table1:
        - {methods: [gcn-1, dp-gcn-1, dp-gcn-1-published, mlp, dp-mlp], tasks: [sbm], epsilons: [12]}
        - {methods: [mlp], tasks: [arxiv]}
      table7:
        - {tasks: [sbm, sbm-disjoint, arxiv]}
      fig2:
        - {methods: [gcn-1, dp-gcn-1, mlp], tasks: [sbm], epsilons: [4, 12]}
"""


@dataclass(frozen=True)
class Copy:
    """The workflow's folder and a way to run Snakemake in it."""

    folder: Path

    def snakemake(
        self,
        *options: str,
        suite: str = "tiny",
        config: tuple[str, ...] = (),
        targets: tuple[str, ...] = (),
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        arguments = ["--cores", "2", *options, "--config", f"suite={suite}", *config, "--", *targets]
        return subprocess.run(
            [python(), "-m", "snakemake", *arguments],
            cwd=self.folder,
            env={**os.environ, "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def jobs(self, *options: str, suite: str = "tiny", targets: tuple[str, ...] = ()) -> dict[str, int]:
        """Jobs per rule that a dry run announces."""
        run = self.snakemake("-n", *options, suite=suite, targets=targets)
        assert run.returncode == 0, run.stdout + run.stderr
        lines = (run.stdout + run.stderr).splitlines()
        if any("Nothing to be done" in line for line in lines):
            return {}
        start = next(i for i, line in enumerate(lines) if line.startswith("Job stats:")) + 3
        end = next(i for i in range(start, len(lines)) if not lines[i].strip())
        return {line.split()[0]: int(line.split()[1]) for line in lines[start:end]}


def copy_workflow(folder: Path) -> Copy:
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("rules", "workflow", "envs", "slurm"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "src").symlink_to(ROOT / "src")
    config = folder / "config.yaml"  # so that Snakemake and `dpgraph run` bundle cells alike
    config.write_text(config.read_text().replace("parallel_jobs: null", "parallel_jobs: 2"))
    (folder / "workflow/suites/tiny.yaml").write_text(TINY)
    (folder / "workflow" / MEASURED).unlink()  # no law of costs is fitted: tests/planning/test_cost.py
    rule = folder / "rules/audit.smk"
    text = rule.read_text()
    assert text.count(ALL_AUDITS) == 1
    rule.write_text(text.replace(ALL_AUDITS, ONE_AUDIT))
    return Copy(folder)


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first worker of pytest-xdist fills; the others wait, and fail if it has failed."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    state = folder.with_name(f"{folder.name}.state")
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not state.exists():
            state.write_text("failed")
            folder.mkdir()
            make(folder)
            state.write_text("made")
    assert state.read_text() == "made", f"{folder}: another test failed to make it"
    return folder


def run_tiny(folder: Path) -> None:
    run = copy_workflow(folder).snakemake()
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-5000:]


@pytest.fixture
def workflow(tmp_path):
    """A fresh copy in which nothing has run."""
    (tmp_path / "workflow").mkdir()
    return copy_workflow(tmp_path / "workflow")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Where the tiny suite has run to its report, once for all workers of pytest-xdist; no test may change it."""
    return make_once(tmp_path_factory, "tiny", run_tiny)


@pytest.fixture
def finished(tiny, tmp_path):
    """A copy of the finished run, in which nothing is left to do: the test's own."""
    folder = tmp_path / "finished"
    shutil.copytree(tiny, folder, symlinks=True)
    for path in (folder / ".snakemake/metadata").rglob("*"):  # the report is told where the Snakefile is
        if path.is_file() and str(tiny) in (text := path.read_text()):
            path.write_text(text.replace(str(tiny), str(folder)))
    return Copy(folder)
