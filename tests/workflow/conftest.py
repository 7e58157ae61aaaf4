"""A copy of the workflow in a temporary folder, with a suite that runs in about a minute."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

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
        command = [sys.executable, "-m", "snakemake", "--cores", "2", *options]
        return subprocess.run(
            [*command, "--config", f"suite={suite}", *config, "--", *targets],
            cwd=self.folder,
            env={**os.environ, "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
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
    (folder / "workflow/suites/tiny.yaml").write_text(TINY)
    return Copy(folder)


@pytest.fixture
def workflow(tmp_path):
    """A fresh copy in which nothing has run."""
    return copy_workflow(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A copy in which the tiny suite has run to its report; tests must leave it finished."""
    copy = copy_workflow(tmp_path_factory.mktemp("workflow"))
    run = copy.snakemake()
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-5000:]
    return copy
