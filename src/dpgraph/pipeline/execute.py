"""Train a seed: from a graph and a calibration to an outcome that is checked and written."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from dpgraph.config.cell import Cell
from dpgraph.config.streams import split_number
from dpgraph.core.errors import invalid
from dpgraph.data.registry import registry
from dpgraph.engine.methods.base import Observation, Outcome
from dpgraph.engine.models.sparse import declared_density
from dpgraph.engine.training.loop import Diverged, keep_freed_memory
from dpgraph.engine.training.precision import products_in
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import trainer_of
from dpgraph.pipeline.collect import write_seed
from dpgraph.pipeline.provenance import provenance
from dpgraph.planning.run import CalibratedRun
from dpgraph.problems.base import size_by_registry


def device_of(name: str) -> torch.device:
    """Return the device; `auto` is a GPU if there is one."""
    chosen = torch.device("cuda" if name == "auto" and torch.cuda.is_available() else name.replace("auto", "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise invalid("device", name, "cpu or auto: this machine has no CUDA device")
    return chosen


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Flush denormal numbers: gradients of a softmax that noise saturates would cost five times the time."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _density(cell: Cell) -> float:
    """Return the share of a mean record's numbers that are not 0, by the registry; 1 where it states none.

    Also 1 where operands are rounded: a sparse product would not round them.
    """
    known = registry().get(cell.task.dataset)
    if cell.training.precision != "float32" or known is None:
        return 1.0
    return size_by_registry(cell.task, known).density


@denormals_flushed()
def train_seed(calibrated: CalibratedRun, seed: int) -> None:
    """Train one seed and write its record.

    Raises TypeError for a split whose public counts are not those that the calibration is for.
    """
    made = {"seed": seed, "provenance": provenance()}
    keep_freed_memory()
    run, cell, counts = calibrated.run, calibrated.run.cell, calibrated.counts
    problem = run.problem.working()
    split = split_number(cell, seed)
    value = problem.load(run.paths.graph, verify=False, split=split)
    if problem.counts(value) != counts:
        raise TypeError(f"split {split}: {problem.counts(value)}: expected {counts}, as the noise was calibrated for")
    device = device_of(calibrated.device)
    checkpoint = run.paths.out / f"seed={seed}.{calibrated.fingerprint}.checkpoint"
    done: dict[str, Any] | None = None
    start, start_cpu = time.monotonic(), time.process_time()

    def observe(step: int, logits: np.ndarray) -> Observation:
        found = problem.evaluate(value, logits, step, final=step == calibrated.steps)
        return {"metrics": [metric.model_dump() for metric in found]}

    trainer = trainer_of(run.spec)
    outcome: Outcome | BaseException
    try:
        with products_in(cell.training.precision), declared_density(_density(cell)):
            (job,) = make_jobs(value, cell, [seed], calibrated.calibration, device, checkpoint, known=run.spec)
            outcome = trainer.run(job, observe)
    except (Diverged, torch.OutOfMemoryError, MemoryError) as error:
        outcome = error
    else:
        # what a private seed did with the data; raises NotAsAccounted
        prepared = job.prepared
        done = None if prepared is None else prepared.check(outcome.resumed_at).model_dump(mode="json")
    spent = {"seconds": time.monotonic() - start, "cpu_seconds": time.process_time() - start_cpu}
    write_seed(calibrated, value, outcome, done, {**made, "device": str(device), **spent})
    for path in checkpoint.parent.glob(f"{checkpoint.name}*"):
        path.unlink(missing_ok=True)
