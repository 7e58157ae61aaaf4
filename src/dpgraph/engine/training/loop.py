"""The loop of one training run of one seed: steps, observations, checkpoints, measurements, memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
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
# of glibc's malloc.h, with values in bytes
MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2
SETTINGS = {MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 256 << 20, TOP_PAD: 64 << 20}  # the first is its largest
GROWN = 192 << 20  # by so much the heap grows at once, less than is given back
HUGE_PAGES = 14  # MADV_HUGEPAGE
TENSORS = "THP_MEM_ALLOC_ENABLE"  # of PyTorch, for tensors of 2 MiB and more on Linux
PAGE = 4096


class Diverged(ArithmeticError):
    """An error for parameters that are not finite: a result of the cell, recorded with its step."""

    def __init__(self, step: int) -> None:
        super().__init__(f"parameters are not finite after step {step}")
        self.step = step


@dataclass(frozen=True)
class TrainingRecord:
    """The measurements of a run. Rates count the steps of this process only, not restored ones."""

    rows: list[Row]
    resumed_at: int
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
    """Call `step` exactly `steps` = T times (Algorithms 4 and 5 print T + 1; T are accounted for).

    A resumed run is bit-identical to an unbroken one, on one device and number of threads. The checkpoint is kept until
    the caller has written the results and removes it. Parameters are checked every `CHECK_EVERY` steps and before
    anything is kept.

    Args:
        name: What the progress is called.
        network: The trained network.
        optimizer: Its optimiser, whose state goes into the checkpoint.
        step: Moves the parameters once.
        steps: T.
        observe: Called after each finished step in `observe_at`, without gradients.
        observe_at: Finished steps that are observed.
        generators: Everything that `step` draws from; their states go into the checkpoint.
        checkpoint: Where the state is kept; None for no checkpoint.

    Returns:
        The observed rows and the measurements.

    Raises:
        Diverged: A parameter is not finite.
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
    busy = max(time.monotonic() - start - observing, 1e-9)
    return TrainingRecord(
        rows=rows,
        resumed_at=resumed_at,
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


def keep_freed_memory() -> None:
    """Let a process keep up to 256 MiB of freed memory, instead of returning it and asking for it again.

    A step frees and allocates the same arrays of some megabytes for each piece of its batch; new pages each time took a
    tenth of a private step. Kept memory is in pages of 2 MiB where Linux gives these on request: reading rows of many
    pages of 4 KiB took another tenth. Call it again after `malloc_trim`. It works with glibc; elsewhere it has no
    effect. PyTorch is asked for such pages as well, for its larger tensors, which no heap keeps: full batches of wide
    rows spent half of their time on new pages of 4 KiB. PyTorch reads the setting until its first allocation.
    """
    os.environ.setdefault(TENSORS, "1")
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            for name, value in SETTINGS.items():
                libc.mallopt(name, value)
            _ask_for_huge_pages(libc)


def _ask_for_huge_pages(libc: ctypes.CDLL) -> None:
    """Ask for huge pages of the heap, grown first, because what it grows by later has small pages."""
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes, libc.madvise.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mallopt(TOP_PAD, GROWN)
    libc.free(libc.malloc(SETTINGS[MMAP_THRESHOLD] - PAGE))
    libc.mallopt(TOP_PAD, SETTINGS[TOP_PAD])
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[heap]"):
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            libc.madvise(begin, end - begin, HUGE_PAGES)
