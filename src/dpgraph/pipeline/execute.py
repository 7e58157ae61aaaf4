"""Seeds of a cell are trained: from a graph and a calibration to outcomes, each checked and written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Cell
from dpgraph.experiments.frozen import digest
from dpgraph.experiments.streams import split_number
from dpgraph.methods.base import Job, Observation, Outcome, StackedMethod
from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.registry import method
from dpgraph.pipeline.collect import write_seed
from dpgraph.privacy.calibration import Calibration
from dpgraph.problems.base import Counts
from dpgraph.problems.registry import problem_of
from dpgraph.training.loop import Diverged
from dpgraph.training.memory import keep_freed_memory
from dpgraph.training.precision import products_in


def device_of(name: str) -> torch.device:
    """`auto`: a GPU if there is one."""
    chosen = torch.device("cuda" if name == "auto" and torch.cuda.is_available() else name.replace("auto", "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise invalid("device", name, "cpu or auto: this machine has no CUDA device")
    return chosen


def stacked(cell: Cell, device: str) -> bool:
    """Whether one process trains all seeds at once."""
    trainer = method(cell.method)
    return isinstance(trainer, StackedMethod) and trainer.stacks(cell, device_of(device))


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Weights that noise has made large saturate the softmax; its denormal gradients would cost five times the time."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@denormals_flushed()
def train_seeds(
    cell: Cell,
    seeds: list[int],
    graph_folder: Path,
    calibration: Calibration,
    counts: Counts,
    device: str,
    out: Path,
    fingerprint: str,
) -> None:
    """One seed, or several of one split that a stacked method takes at once; a record for each.

    Raises TypeError for a split whose public `counts` are not those that the calibration is for.
    """
    keep_freed_memory()
    problem = problem_of(cell.task).working()
    (split,) = {split_number(cell, seed) for seed in seeds}
    value = problem.load(graph_folder, verify=False, split=split)
    if problem.counts(value) != counts:
        raise TypeError(f"split {split}: {problem.counts(value)}: expected {counts}, as the noise was calibrated for")
    chosen = device_of(device)
    named = "-".join(map(str, seeds)) if len(seeds) < 10 else f"{len(seeds)}-{digest(list(seeds))}"
    checkpoint = out / f"seed={named}.{fingerprint}.checkpoint"
    jobs: list[Job] = []
    steps = calibration.statement.steps
    start, start_cpu = time.monotonic(), time.process_time()

    def observe(step: int, logits: np.ndarray) -> Observation:
        return {
            "metrics": [metric.model_dump() for metric in problem.evaluate(value, logits, step, final=step == steps)]
        }

    trainer = method(cell.method)
    outcomes: list[Any]
    try:
        with products_in(cell.training.precision):
            jobs = make_jobs(value, cell, seeds, calibration, chosen, checkpoint)
            if isinstance(trainer, StackedMethod) and trainer.stacks(cell, chosen):
                outcomes = trainer.run_all(jobs, [observe] * len(jobs))
            else:
                outcomes = [trainer.run(jobs[0], observe)]
    except (Diverged, torch.OutOfMemoryError, MemoryError) as error:
        outcomes = [error] * len(seeds)
    share = (time.monotonic() - start) / len(seeds), (time.process_time() - start_cpu) / len(seeds)
    ran = [_checked(job, outcome) for job, outcome in zip(jobs, outcomes)] or [None] * len(seeds)
    for seed, outcome, done in zip(seeds, outcomes, ran, strict=True):
        write_seed(out, cell, seed, problem, value, outcome, done, share, str(chosen), fingerprint, steps)
    for path in out.glob(f"*{checkpoint.name}*"):  # seeds that were trained one by one have their own
        path.unlink(missing_ok=True)


def _checked(job: Job, outcome: Outcome | BaseException) -> dict[str, Any] | None:
    """Return what a private seed did with the data; None without privacy, or if it ended early.

    Raises NotAsAccounted."""
    if job.prepared is None or isinstance(outcome, BaseException):
        return None
    return job.prepared.check(outcome.resumed_at).model_dump(mode="json")
