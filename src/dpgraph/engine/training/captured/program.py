"""A step as one program of fixed shapes that reads no number back to the host, on batches that are drawn ahead.

**Exact.** Batches of the next steps are drawn at once and assigned to slots (`sampling.slots`), and the host reads,
once for all of them, which fit. A batch that does not fit is summed without fixed shapes. No root is ever left out
because it has no slot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.randomness import Key
from dpgraph.engine.sampling import slots as slotting
from dpgraph.engine.sampling.batches import FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.engine.sampling.ego import EgoTrees
from dpgraph.engine.sampling.slots import DrawnSlots, SlotClasses
from dpgraph.engine.training.captured.replay import Replay, compiled, compiles
from dpgraph.engine.training.captured.slot_batch import SlotBatch, SlotTrees

AHEAD = 64  # steps whose batches are drawn at once: one wait for the device in so many steps
EARLY = 8  # after so many of them the next ones are drawn, which a GPU is given while it has other work
MOST_DRAWN = 1 << 24  # numbers of one draw


class DrawnBatches(Protocol):
    """The batches of one sum, step by step."""

    sampler: Sampler

    def masks(self, first: int, steps: int, like: Tensor) -> Tensor:
        """Return masks (steps, N) of the batches of the steps from `first` on, roots in the sampler's order."""

    def positions(self, step: int, like: Tensor) -> np.ndarray:
        """Return the positions of the roots of one of these steps, on the host."""

    def use(self, step: int) -> None:
        """Count the batch of a step as drawn."""


@dataclass
class DeviceBatches:
    """Batches that the device draws: functions of a key and the step."""

    sampler: Sampler
    key: Key
    stream: int

    def masks(self, first: int, steps: int, like: Tensor) -> Tensor:
        sampler = self.sampler
        numbers = slotting.random_numbers(sampler.num_roots, self.key.value, first, steps, self.stream, like)
        if isinstance(sampler, PoissonSampler):
            return slotting.poisson_masks(numbers, sampler.rate)
        if not isinstance(sampler, FixedSizeSampler):
            raise TypeError(f"{type(sampler).__name__}: expected Poisson batches or batches of fixed size")
        drawn = slotting.fixed_size_batches(numbers, sampler.size)
        return torch.zeros_like(numbers, dtype=torch.bool).scatter_(1, drawn, True)

    def positions(self, step: int, like: Tensor) -> np.ndarray:
        return self.masks(step, 1, like)[0].nonzero().squeeze(1).cpu().numpy()

    def use(self, step: int) -> None:
        self.key.draws += 1
        self.key.numbers += getattr(self.sampler, "size", self.sampler.num_roots)


@dataclass
class HostBatches:
    """Batches of a generator on the host, drawn ahead: the same as on a CPU.

    The generator stands where it would stand if each batch were drawn in its own step, so that a checkpoint keeps it.
    """

    sampler: Sampler
    generator: np.random.Generator
    drawn: dict[int, np.ndarray] = field(default_factory=dict)  # by step
    _states: dict[int, Any] = field(default_factory=dict)  # of the generator after each draw

    def draw(self, first: int, steps: int) -> list[np.ndarray]:
        """Draw the batches of the steps from `first` on; no step is drawn twice without `start_at`."""
        self.drawn, self._states = {}, {}
        for step in range(first, first + steps):
            self.drawn[step] = self.sampler.draw(self.generator)
            self._states[step] = self.generator.bit_generator.state
        return list(self.drawn.values())

    def masks(self, first: int, steps: int, like: Tensor) -> Tensor:
        result = np.zeros((steps, self.sampler.num_roots), dtype=bool)
        for mask, positions in zip(result, self.draw(first, steps), strict=True):
            mask[positions] = True
        return torch.from_numpy(result).to(like.device)

    def positions(self, step: int, like: Tensor) -> np.ndarray:
        return self.drawn[step]

    def use(self, step: int) -> None:
        if step in self._states:
            self.generator.bit_generator.state = self._states[step]


class RowSource(Protocol):
    """Rows of the batches of one sum, drawn ahead; `row` holds that of the current step."""

    batches: Any
    row: Tensor

    def ahead(self, first: int, steps: int) -> DrawnSlots:
        """Return the batches of `steps` steps."""


class TreeSource:
    """Ego trees, the slots that a batch of them takes, and the batches of the steps ahead."""

    def __init__(self, trees: EgoTrees, batches: DrawnBatches, labels: Tensor, number_type: torch.dtype) -> None:
        self.trees, self.batches = trees, batches
        self.classes = classes_of(trees, batches.sampler)
        self.slots = SlotTrees(trees, labels, self.classes, number_type)
        sizes = np.diff(trees.row_ptr[-1])
        self.ends = torch.from_numpy(np.searchsorted(sizes, self.classes.widths, side="right")).to(trees.device)
        order = np.empty(len(sizes), dtype=np.int64)
        order[trees.rank] = np.arange(len(sizes))
        self.order = torch.from_numpy(order).to(trees.device)
        self.row = torch.full((self.classes.slots,), self.slots.spare, dtype=torch.int64, device=trees.device)

    @property
    def batch(self) -> SlotBatch:
        """The trees in the slots of the current step."""
        return SlotBatch(self.slots, self.row)

    def ahead(self, first: int, steps: int) -> DrawnSlots:
        """Return the slots of the batches of `steps` steps."""
        return self.filled(self.batches.masks(first, steps, self.row))

    def filled(self, masks: Tensor) -> DrawnSlots:
        """Return the slots of the batches of masks (k, N), roots in the sampler's order."""
        return slotting.fill_slots(masks.index_select(1, self.order), self.ends, self.classes)

    def positions(self, step: int) -> np.ndarray:
        """Return the positions of the roots of one step, for an engine without slots."""
        return self.batches.positions(step, self.row)


def classes_of(trees: EgoTrees, sampler: Sampler) -> SlotClasses:
    """Return the slots for batches of these trees."""
    rate, most = getattr(sampler, "rate", 0.0), sampler.num_roots
    if isinstance(sampler, FixedSizeSampler):
        rate, most = sampler.size / sampler.num_roots, sampler.size
    return slotting.slot_classes(np.diff(trees.row_ptr[-1]), rate, most, trees.device.type)


class PositionSource:
    """The positions (m,) of the roots of batches of fixed size, in the steps ahead."""

    def __init__(self, batches: HostBatches, size: int, device: torch.device) -> None:
        self.batches, self.row = batches, torch.arange(size, device=device)

    def ahead(self, first: int, steps: int) -> DrawnSlots:
        """Return the batches of `steps` steps; where each holds all roots, nothing is drawn."""
        size, device = len(self.row), self.row.device
        if size == self.batches.sampler.num_roots:
            rows = torch.arange(size, device=device).expand(steps, -1)
        else:
            rows = torch.from_numpy(np.stack(self.batches.draw(first, steps))).to(device)
        over = torch.zeros(steps, dtype=torch.bool, device=device)
        return DrawnSlots(rows, over, torch.full_like(over, size, dtype=torch.int64))


class Ahead:
    """The batches (of each source) of the steps from `first` on."""

    def __init__(self, first: int, drawn: list[DrawnSlots]) -> None:
        self.first, self.drawn = first, drawn
        known = torch.stack([torch.stack([one.overflow.long(), one.sizes]) for one in drawn]).sum(0)
        self._known, self._there = known.to("cpu", non_blocking=True), None
        if known.is_cuda:
            self._there = torch.cuda.Event()
            self._there.record()

    @cached_property
    def known(self) -> list[list[int]]:
        """The number of sources of each step that do not fit, and of its roots: the one wait for the device."""
        if self._there is not None:
            self._there.synchronize()
        return self._known.tolist()  # type: ignore[no-any-return]


class CapturedProgram:
    """A program that replaces a step.

    Batches depend on the number of finished steps, so `start_at` has to be called before the first step, and a step
    that was not told where it starts is refused. An optimiser must update its parameters in place from their `grad`
    without reading a number back: SGD, and Adam with `capturable`.
    """

    sums_alone = False  # True where `sum_slots` is part of the program, and reads no generator

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        sources: Sequence[RowSource],
        generators: Collection[torch.Generator],
        ahead_steps: int = AHEAD,
    ) -> None:
        """Keep the sources of batches, and the generators that the program reads."""
        self.optimizer, self.sources = optimizer, sources
        self.parameters: list[Tensor] = [p for group in optimizer.param_groups for p in group["params"]]
        self.device = self.parameters[0].device
        most = max(source.batches.sampler.num_roots for source in sources)
        self.ahead_steps = max(1, min(ahead_steps, MOST_DRAWN // most))
        self.compiles = compiles()
        self.overflows = 0  # steps of this process that ran without slots
        self._next: int | None = None
        self._ahead: Ahead | None = None
        self._coming: Ahead | None = None
        self.replay = Replay(self.device, generators)

    def program(self) -> None:
        """Run one step on the current batches: all of it on the device, every shape the same each time."""
        raise NotImplementedError

    def sum_slots(self) -> None:
        """Write the sums of the current batches to `flat`."""
        raise NotImplementedError

    @property
    def is_compiled(self) -> bool:
        """True if the sums are compiled: where programs are, and where the sums read no generator."""
        return self.sums_alone and self.compiles

    @cached_property
    def summed(self) -> Callable[[], None]:
        """`sum_slots`, as it runs."""
        return compiled(self.sum_slots) if self.is_compiled else self.sum_slots

    def run_without_slots(self, step: int) -> None:
        """Run a step whose batch does not fit."""
        raise TypeError("a batch of fixed shape always fits")

    def check(self) -> None:
        """Raise TypeError if a number that a captured program holds has changed."""

    def count(self, step: int) -> None:
        """Count the draws of a step."""
        for source in self.sources:
            source.batches.use(step)

    def skips(self, size: int) -> bool:
        """Return whether a batch of this size moves no parameter."""
        return False

    @cached_property
    def sums(self) -> dict[Tensor, Tensor]:
        """The gradient of each parameter, as a part of `flat`."""
        parts = self.flat.split([parameter.numel() for parameter in self.parameters])
        return {p: part.view_as(p) for p, part in zip(self.parameters, parts, strict=True)}

    @cached_property
    def flat(self) -> Tensor:
        """The gradients of all parameters as one vector."""
        return self.parameters[0].new_zeros(sum(parameter.numel() for parameter in self.parameters))

    def write(self, gradients: Iterable[Tensor]) -> None:
        """Write the gradient of each parameter to `flat`."""
        for total, part in zip(self.sums.values(), gradients, strict=True):
            total.copy_(part)

    def update(self) -> None:
        """Move the parameters against the gradients in `flat`."""
        for parameter, total in self.sums.items():
            parameter.grad = total
        self.optimizer.step()

    def start_at(self, step: int) -> None:
        """Continue after so many finished steps."""
        self._next, self._ahead, self._coming = step, None, None

    def __call__(self) -> int:
        """Run the next step; return the number of its roots."""
        if self._next is None:
            raise TypeError("a captured step has to be told where it starts: call start_at first")
        self.check()
        ahead = self._ahead
        if ahead is None or self._next >= ahead.first + self.ahead_steps:
            self._ahead = ahead = self._coming or self._drawn(self._next)
            self._coming = None
        index = self._next - ahead.first
        overflow, size = (of_steps[index] for of_steps in ahead.known)
        self.count(self._next)
        if overflow:
            self.overflows += 1
            self.run_without_slots(self._next)
        elif not self.skips(size):
            for source, drawn in zip(self.sources, ahead.drawn, strict=True):
                source.row.copy_(drawn.ranks[index])
            self._run()
        if index == EARLY and all(isinstance(source.batches, DeviceBatches) for source in self.sources):
            self._coming = self._drawn(ahead.first + self.ahead_steps)
        self._next += 1
        return size

    def _drawn(self, first: int) -> Ahead:
        return Ahead(first, [source.ahead(first, self.ahead_steps) for source in self.sources])

    def _run(self) -> None:
        if not self.replay.run(self.program):
            self.count_replayed()

    def count_replayed(self) -> None:
        """Count what the program itself counts where it runs call by call."""
