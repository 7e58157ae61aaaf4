"""What the tests see of Slurm and of Snakemake on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml

T = TypeVar("T")
HERE = Path(__file__).parent
SNAKEMAKE = Path(sys.executable).parent / "snakemake"

# Every problem from nothing: an encoder of relations, with privacy and without; the same of a user's own texts, in the
# layout csv, as hashed words, without an optional package; teachers of PATE and two students of one release.
PROBLEMS = """
name: problems
title: Every problem
note: No number means anything.
demonstration: true
seeds: 2
tasks:
  relations: {label: Relations, task: {dataset: demo-relations, split: random-60-15-25}}
  texts: {label: Texts, task: {dataset: own-texts, split: random-60-15-25}}
  images: {label: Images, task: {dataset: demo-images, split: random-60-15-25}}
papers:
  huang:
    rules:
      - set: {training: {learning_rate: 0.01, steps: 20, sampling_rate: 0.05}}
      - {methods: [encoder, dp-encoder], set: {model: {encoder: mlp, width: 16}, training: {negatives: 2}}}
      - {methods: [dp-encoder], set: {privacy: {max_degree: 4, list_cap: 1}}}
    artefacts:
      table1-mrr:
        - {methods: [encoder, dp-encoder], tasks: [relations], epsilons: [10]}
        - {methods: [cosine, encoder, dp-encoder], tasks: [texts], epsilons: [10]}
      table2: [{tasks: [texts]}]
  zhang-ch3:
    rules:
      - set:
          training:
            {learning_rate: 0.002, steps: 40, student_batch_size: 50, teachers: 10, teacher_channels: 2,
             teacher_width: 8, teacher_steps: 20}
      - methods: [pate-proved, frozen]
        set: {privacy: {max_checks: 270, max_answers: 120, check_ratio: 3.0, threshold: 0.5}}
    artefacts:
      table3.1: [{methods: [pate-proved, frozen], tasks: [images], epsilons: [8]}]
"""
OWN_TEXTS = """
own-texts:
  problem: relations
  title: Texts of the test
  home: none
  licence: {name: none}
  citation: ""
  reader: text_relations
  options: {folders: [graph], layouts: [csv], encoder: words}
  files:
    - {path: graph/nodes.csv, sources: [{mirror: nodes.csv}]}
    - {path: graph/relations.csv, sources: [{mirror: relations.csv}]}
  expected: {nodes: 200, features: 512}
"""


# A private cell and another of each problem, long enough to be stopped between two checkpoints, and short enough to be
# trained again. Slurm wakes a job before it ends it, when its time is over (votes) or it is cancelled (texts): on a
# loaded machine 600 steps of votes were done in between, and 150 of texts. The encoder of texts is a
# perceptron on their vectors.
FAILURES = """
name: failures
title: Jobs to be killed
note: No number means anything.
demonstration: true
seeds: 2
tasks:
  texts: {label: Texts, task: {dataset: demo-relations, split: random-60-15-25}}
  images: {label: Images, task: {dataset: demo-images, split: random-60-15-25}}
  votes: {label: Votes, task: {dataset: demo-sbm}}
  digits: {label: Digits, task: {dataset: demo-digits, split: random-60-15-25}}
papers:
  huang:
    rules:
      - set: {model: {encoder: mlp, width: 16}, training: {learning_rate: 0.01, steps: 600, negatives: 4}}
      - {methods: [encoder], set: {training: {batch_size: 64}}}
      - {methods: [dp-encoder], set: {training: {sampling_rate: 0.005}, privacy: {max_degree: 4, list_cap: 1}}}
    artefacts:
      table1-mrr: [{methods: [encoder, dp-encoder], tasks: [texts], epsilons: [10]}]
  zhang-ch4:
    rules:
      - set: {training: {learning_rate: 0.01, steps: 300, sampling_rate: 0.1}}
      - {methods: [cnn], set: {model: {channels: 2, width: 8}}}
      - {methods: [dp-mlp-record], set: {model: {width: 32}, privacy: {clip_norm: 1.0}}}
    artefacts:
      images: [{methods: [cnn, dp-mlp-record], tasks: [images], epsilons: [8]}]
  votes:
    rules:
      - set: {training: {learning_rate: 0.1, steps: 2000, sampling_rate: 0.2}, privacy: {clip_norm: 1.0}}
    artefacts:
      accuracy: [{methods: [own, votes], tasks: [votes], epsilons: [8]}]
  daigavane:
    rules:
      - set:
          model: {width: 16}
          training: {learning_rate: 0.02, sampling_rate: 0.1, steps: 250}
      - {methods: [gcn-1], set: {training: {steps: 40}}}
      - {methods: ["dp-*"], set: {privacy: {max_degree: 3, clip_norm: 1.0}}}
    artefacts:
      table1: [{methods: [gcn-1, dp-gcn-1, mlp], tasks: [digits], epsilons: [12]}]
"""


TEXTS, IMAGES, VOTES, DIGITS = TASKS = (
    "demo-relations-transductive",
    "demo-images-transductive",
    "demo-sbm-transductive",
    "demo-digits-transductive",
)


def write_texts(folder: Path) -> None:
    """200 entities on a ring, each of three words that it shares with its neighbours; one text is empty, one id
    unknown, one relation is an entity's own, and one is given twice."""
    folder.mkdir()
    (folder / "datasets.yaml").write_text(OWN_TEXTS)
    texts = [f"word{i} word{(i + 1) % 200} word{(i + 2) % 200}" for i in range(199)] + [""]
    (folder / "nodes.csv").write_text("id,text\n" + "".join(f"e{i},{text}\n" for i, text in enumerate(texts)))
    pairs = [(i, (i + step) % 200) for step in (1, 2) for i in range(200)] + [(0, 999), (5, 5), (1, 0)]
    (folder / "relations.csv").write_text("head,tail\n" + "".join(f"e{one},e{other}\n" for one, other in pairs))


def wait_for(what: str, found: Callable[[], T | None], seconds: float = 600) -> T:
    """The first result that is neither None nor false."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {seconds:.0f} s")


def slurm(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def kill(daemon: str) -> None:
    """Send SIGKILL to slurmctld or a node's slurmd; jobs have processes of their own and run on."""
    pid = int((Path(os.environ["DPGRAPH_SLURM"]) / f"{daemon}.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_for(f"the end of {daemon}", lambda: _state(pid) in ("", "Z"))


def start(daemon: str) -> None:
    subprocess.run([HERE / "start.sh", daemon], check=True, timeout=120)


def stop(daemon: str) -> None:
    """The way an administrator does; the controller writes down what it knows."""
    subprocess.run([HERE / "stop.sh", daemon], check=True, timeout=120)


def _state(pid: int) -> str:
    """The kernel's letter; Z for a process that nobody has reaped yet, empty for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def kill_job(job: str) -> None:
    """SIGKILL for all processes of a job, those of Slurm that watch over it first: what a power cut leaves."""
    watchers, others = [], []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_text().startswith(f"slurmstepd: [{job}."):
                watchers.append(int(path.name))
            elif f"SLURM_JOB_ID={job}" in (path / "environ").read_text(errors="replace").split("\0"):
                others.append(int(path.name))
        except OSError:
            continue
    for pid in watchers + others:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@dataclass
class Process:
    """A training process of a job, stopped while it was at work."""

    pid: int
    environment: dict[str, str]
    trained: dict[Path, int]  # records of seeds that were there, and when they were written

    @property
    def job(self) -> str:
        return self.environment["SLURM_JOB_ID"]

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@dataclass
class Run:
    """A run of `snakemake --profile slurm` in `folder`, its output in snakemake.log.

    `literal`: by that very program; otherwise by frequent_checks.py, so that no test waits between two status checks.
    """

    folder: Path
    suite: str
    literal: bool = False
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *options: str) -> None:
        program = [str(SNAKEMAKE)] if self.literal else [sys.executable, str(HERE / "frequent_checks.py")]
        with (self.folder / "snakemake.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*program, "--profile", "slurm", *options],
                cwd=self.folder,
                env={**os.environ, "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1", **self.environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self, seconds: float = 1800) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def __call__(self, *options: str) -> int:
        self.start(*options)
        return self.end()

    @property
    def output(self) -> str:
        return (self.folder / "snakemake.log").read_text()

    def jobs(self, rule: str = "") -> list[dict[str, str]]:
        """Fields of the folder's Slurm jobs, finished ones too, in the order of submission."""
        lines = slurm("scontrol", "--oneliner", "show", "jobs").splitlines()
        found = [dict(part.split("=", 1) for part in line.split() if "=" in part) for line in lines]
        mine = [job for job in found if job.get("WorkDir") == str(self.folder)]
        return sorted(
            (job for job in mine if job["Comment"].startswith(f"rule_{rule}")), key=lambda job: int(job["JobId"])
        )

    def queue(self) -> list[str]:
        """Ids of the folder's jobs that wait or run."""
        lines = [line.split(maxsplit=1) for line in slurm("squeue", "--noheader", "--format=%i %Z").splitlines()]
        return [job for job, folder in lines if folder == str(self.folder)]

    def profile(self, **settings: object) -> None:
        """Change settings of the copy's profile."""
        path = self.folder / "slurm/profile.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | settings))

    @property
    def results(self) -> Path:
        return self.folder / "results" / self.suite

    def marker(self, task: str) -> str:
        """What the job that trains `task` writes at its end."""
        return str(next((self.results / "trained").glob(f"{task}.*.json")).relative_to(self.folder))

    def catch(self, *tasks: str, at_checkpoint: bool = False) -> list[Process]:
        """Stop each job that trains one of `tasks` as soon as it has trained one cell and not all of them.

        `at_checkpoint`: and has written a checkpoint of the next.
        """
        caught: dict[str, Process] = {}

        def find() -> bool:
            for task in set(tasks) - set(caught):
                if found := self._stopped(task, at_checkpoint):
                    caught[task] = found
            return len(caught) == len(tasks)

        wait_for(f"jobs that train {', '.join(tasks)}", find)
        return [caught[task] for task in tasks]

    def _stopped(self, task: str, at_checkpoint: bool) -> Process | None:
        cells = self.results / "cells"

        def unfinished(checkpoint: Path) -> bool:
            """Whether the seed has no record yet: its checkpoint, whole under this name, outlives that for a moment."""
            return not checkpoint.with_name(f"{checkpoint.name.split('.')[0]}.json").exists()

        def there() -> bool:
            return bool(list(cells.glob(f"{task}.*/result.json"))) and (
                not at_checkpoint or any(map(unfinished, cells.glob(f"{task}.*/seed=*.checkpoint")))
            )

        if not there():
            return None
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().decode().split("\0")
                if words[1:4] != ["-m", "dpgraph", "train"] or (path / "cwd").resolve() != self.folder:
                    continue
                if not Path(words[4]).name.startswith(f"{task}."):
                    continue
                pid = int(path.name)
                os.kill(pid, signal.SIGSTOP)
                wait_for(f"process {pid} to stop", lambda pid=pid: _state(pid) in ("", "T", "Z"), seconds=10)
                pairs = (line.split("=", 1) for line in (path / "environ").read_text().split("\0") if "=" in line)
                if not there():  # its seed ended between the look and the stop
                    os.kill(pid, signal.SIGCONT)
                    return None
            except (OSError, ValueError):
                continue
            records = cells.glob(f"{task}.*/seed=[0-9].json")
            return Process(pid, dict(pairs), {record: record.stat().st_mtime_ns for record in records})
        return None
