"""A copy of the workflow in a temporary folder, with a suite that runs in less than a minute."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dpgraph.planning.cost import FILE as MEASURED

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


SERVER = """
import json, os, signal, sys
import snakemake.cli, numpy, pandas, pydantic, yaml

snakemake.cli.get_argument_parser()  # loads the plugins
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    signal.alarm(1800)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for name, target in (("nothing", 0), ("stdout", 1), ("stderr", 2)):
        opened = os.open(order[name], os.O_RDONLY if target == 0 else os.O_WRONLY)
        os.dup2(opened, target)
        os.close(opened)
    sys.path[0] = order["folder"]
    sys.argv = ["snakemake", *order["arguments"]]
    snakemake.cli.main()
    sys.exit()
"""


class Server:
    """Runs `snakemake` in processes that need not import it: they are forked from one that has imported it.

    That one has imported nothing of dpgraph, which the Snakefile takes from its own folder.
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """As `python -m snakemake` in `folder`; it is killed after 1800 s."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with TemporaryDirectory() as written:
            files = {name: Path(written, name) for name in ("stdout", "stderr")}
            for path in files.values():
                path.touch()
            order = {"arguments": arguments, "folder": str(folder), "environment": environment, "nothing": os.devnull}
            self.process.stdin.write(json.dumps(order | {name: str(path) for name, path in files.items()}) + "\n")
            self.process.stdin.flush()
            status = int(self.process.stdout.readline())
            said = {name: path.read_text() for name, path in files.items()}
        return subprocess.CompletedProcess(["snakemake", *arguments], status, **said)

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait(60)


@cache
def _server() -> Server:
    found = Server()
    atexit.register(found.end)
    return found


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
        return _server().run(
            ["--cores", "2", *options, "--config", f"suite={suite}", *config, "--", *targets],
            self.folder,
            {**os.environ, "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1", **environment},
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
