"""The loop of one training run of one seed: steps, observations, checkpoints, measurements."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from dpgraph.core.progress import progress
from dpgraph.engine.training.checkpoint import Checkpoint, Generator
from dpgraph.engine.training.steps import ScheduledStep, Step

CHECK_EVERY = 50  # steps between looks at the parameters: a look waits for the device

Row = dict[str, Any]
N = TypeVar("N", bound=nn.Module)
Observe = Callable[[int, N], Row]  # (finished steps, network) -> one row of plain numbers and strings


class Diverged(ArithmeticError):
    """Parameters that are not finite: a result of the cell, to be recorded with its step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"parameters are not finite after step {step}")
        self.step = step


@dataclass(frozen=True)
class TrainingRecord:
    """What a run leaves besides its parameters. Rates count the steps of this process only, not restored ones."""

    rows: list[Row]
    steps: int
    resumed_at: int
    seconds: float  # of this process, observations included
    steps_per_second: float  # observations excluded; no rate of records, which would tell how many were read
    peak_memory_bytes: int  # of the whole process on a CPU, of the allocator on a CUDA device
    device: str


def train(
    name: str,
    network: N,
    optimizer: torch.optim.Optimizer,
    step: Step,
    steps: int,
    observe: Observe[N],
    observe_at: Collection[int],
    generators: Mapping[str, Generator],
    checkpoint: Checkpoint | None = None,
) -> TrainingRecord:
    """Calls `step` exactly `steps` = T times (Algorithms 4 and 5 print T + 1; T are accounted for).

    `observe` is called after each of the finished steps in `observe_at`, without gradients. `generators` are all that
    `step` draws from: their states go into the checkpoint, so that a resumed run is bit-identical to an unbroken one
    (on one device and number of threads). The checkpoint is kept until the caller has written the results and removes
    it. Raises Diverged if a parameter is not finite: looks every now and then, and before whatever is kept.
    """
    device = next(network.parameters()).device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    resumed_at, rows = checkpoint.restore(network, optimizer, generators) if checkpoint is not None else (0, [])
    if isinstance(step, ScheduledStep):
        step.start_at(resumed_at)
    start, observing = time.monotonic(), 0.0
    with progress(name, steps - resumed_at) as bar:
        for done in range(resumed_at + 1, steps + 1):
            step()
            due = checkpoint is not None and checkpoint.due()
            seen = done in observe_at
            if seen or due or done == steps or done % CHECK_EVERY == 0:
                _raise_unless_finite(network, done)
            if seen:
                before = time.monotonic()
                with torch.no_grad():
                    rows = [*rows, observe(done, network)]
                observing += time.monotonic() - before
            if due and checkpoint is not None and done < steps:
                checkpoint.save(done, network, optimizer, generators, rows)
            bar.update()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    seconds = time.monotonic() - start
    busy = max(seconds - observing, 1e-9)
    return TrainingRecord(
        rows=rows,
        steps=steps,
        resumed_at=resumed_at,
        seconds=seconds,
        steps_per_second=(steps - resumed_at) / busy,
        peak_memory_bytes=_peak_memory(device),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
    )


def _raise_unless_finite(network: nn.Module, done: int) -> None:
    if not torch.stack([torch.isfinite(p).all() for p in network.parameters()]).all():
        raise Diverged(done)


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
