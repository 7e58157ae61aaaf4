"""Steps over tuples as programs of fixed shapes (`engine.training.captured`): a private one, and one without privacy.

Batches with their negatives are drawn ahead. A private batch is drawn on the device: a Poisson batch of places, and as
negatives the entities with the smallest of n numbers, in the order of these, so that every ordered choice is equally
likely. A slot without a tuple holds `NO_ENTITY`; its limit is 0, so that it adds nothing. A batch with more tuples than
slots runs at its own size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.randomness import Key
from dpgraph.engine.sampling.slots import DrawnSlots, SlotClasses, fill_slots, most_drawn, random_numbers
from dpgraph.engine.training.captured.program import AHEAD, MOST_DRAWN, CapturedProgram, DeviceBatches
from dpgraph.engine.training.precision import operand_eps
from dpgraph.families.tuples.sampling import NO_ENTITY, TupleBatches
from dpgraph.families.tuples.steps import PlainRelationStep, RelationStep


def program_of(
    step: RelationStep | PlainRelationStep, keys: Callable[[], tuple[Key, Key]]
) -> CapturedTuples | CapturedPlainTuples:
    """Return the program of a step; a private one draws batches and negatives with these keys."""
    return CapturedTuples(step, *keys()) if isinstance(step, RelationStep) else CapturedPlainTuples(step)


class DeviceTuples:
    """Batches of a private step, drawn on the device: functions of two keys and the step."""

    def __init__(self, batches: TupleBatches, places: Key, negatives: Key, device: torch.device) -> None:
        self.own, self.key = batches, negatives
        self.batches = DeviceBatches(batches.draws.sampler, places, 0)
        sampler: Any = batches.draws.sampler
        entities, per_tuple = batches.negatives.entities, batches.negatives.per_tuple
        slots = max(1, min(most_drawn(sampler.num_roots, sampler.rate), len(entities) // per_tuple))
        batches.negatives.wanted(slots)
        self.slots = SlotClasses((1,), (slots,))
        self.entities = torch.from_numpy(entities).to(device)
        pairs = np.full((sampler.num_roots + 1, 2), NO_ENTITY, dtype=np.int64)  # the last for slots without a tuple
        pairs[: len(batches.tuples)] = batches.tuples.pairs
        self.pairs = torch.from_numpy(pairs).to(device)
        self.filled = torch.arange(sampler.num_roots, device=device) < len(batches.tuples)  # places with a tuple
        self.ends = torch.tensor([sampler.num_roots], device=device)
        self.row = torch.full((self.slots.slots, 2 + per_tuple), NO_ENTITY, device=device)

    def ahead(self, first: int, steps: int) -> DrawnSlots:
        """Return the batches (steps, slots, 2 + k) of `steps` steps."""
        masks = self.batches.masks(first, steps, self.row) & self.filled
        drawn = fill_slots(masks, self.ends, self.slots)
        pairs = self.pairs[drawn.ranks]
        negatives = self._negatives(first, steps, self.slots.slots).masked_fill(pairs[..., :1] == NO_ENTITY, NO_ENTITY)
        return DrawnSlots(torch.cat([pairs, negatives], 2), drawn.overflow, drawn.sizes)

    def batch(self, step: int) -> Tensor:
        """Return the batch (b, 2 + k) of one step, whatever its size."""
        pairs = self.pairs[(self.batches.masks(step, 1, self.row)[0] & self.filled).nonzero().squeeze(1)]
        return torch.cat([pairs, self._negatives(step, 1, len(pairs))[0]], 1)

    def use(self, step: int) -> None:
        """Count the batch of a step as drawn."""
        self.batches.use(step)
        self.own.draws.count += 1
        self.key.draws += 1
        self.key.numbers += len(self.entities)

    def _negatives(self, first: int, steps: int, tuples: int) -> Tensor:
        numbers = random_numbers(len(self.entities), self.key.value, first, steps, 0, self.row)
        chosen = numbers.topk(self.own.negatives.wanted(tuples), largest=False, sorted=True).indices
        return self.entities[chosen].view(steps, tuples, -1)


class CapturedTuples(CapturedProgram):
    """The program of a private step over tuples."""

    def __init__(self, step: RelationStep, places: Key, negatives: Key, ahead_steps: int = AHEAD) -> None:
        """Lay out slots for the tuples of a batch."""
        self.step = step
        self.source = DeviceTuples(step.batches, places, negatives, step.device)
        least = MOST_DRAWN // max(1, len(step.batches.negatives.entities))
        super().__init__(step.optimizer, [self.source], [step.noise.generator], max(1, min(ahead_steps, least)))
        self.noise = torch.empty_like(self.flat)
        self._baked = self._numbers()

    def check(self) -> None:
        if self._baked != self._numbers():
            raise TypeError("clip norm, noise, divisor, batches or precision changed after the step was captured")

    def count(self, step: int) -> None:
        self.source.use(step)
        self.step.noise.draws += 1
        self.step.noise.numbers += self.flat.numel()

    def program(self) -> None:
        batch = self.source.row
        self._release(batch.clamp_min(0), self.step.limits(batch).masked_fill(batch[:, 0] == NO_ENTITY, 0))

    def run_without_slots(self, step: int) -> None:
        batch = self.source.batch(step)
        self._release(batch, self.step.limits(batch))

    def _release(self, batch: Tensor, limits: Tensor) -> None:
        found, noise = self.step.model.clipped(batch, limits), self.step.noise
        with torch.no_grad():
            self.write(found.sums)
            self.flat.add_(self.noise.normal_(generator=noise.generator), alpha=float(noise.std))  # type: ignore[arg-type]
            self.flat.div_(self.step.divisor)
            self.update()

    def _numbers(self) -> tuple[object, ...]:
        """Return the numbers that a captured program holds as constants."""
        step, negatives = self.step, self.step.batches.negatives
        rates = (group["lr"] for group in step.optimizer.param_groups)
        drawn = (step.batches.draws.sampler, negatives.per_tuple, negatives.without_replacement)
        return (step.clipped, step.clip_norm, step.noise.std, step.divisor, operand_eps(self.flat), *drawn, *rates)


class HostTuples:
    """Batches of fixed size without privacy, of the usual generators, which stand where these would."""

    def __init__(self, batches: TupleBatches, device: torch.device) -> None:
        self.own, self.batches, self.sampler = batches, self, batches.draws.sampler
        size: int = batches.draws.sampler.size  # type: ignore[attr-defined]
        self.row = torch.zeros(size, 2 + batches.negatives.per_tuple, dtype=torch.int64, device=device)
        self._states: dict[int, Any] = {}

    def ahead(self, first: int, steps: int) -> DrawnSlots:
        """Return the batches of `steps` steps."""
        drawn, self._states = [], {}
        for step in range(first, first + steps):
            drawn.append(self.own.next())
            self._states[step] = [one.bit_generator.state for one in self._generators]
        over = torch.zeros(steps, dtype=torch.bool, device=self.row.device)
        rows = torch.from_numpy(np.stack(drawn)).to(self.row.device)
        return DrawnSlots(rows, over, torch.full_like(over, len(self.row), dtype=torch.int64))

    def use(self, step: int) -> None:
        """Count the batch of a step as drawn."""
        for one, state in zip(self._generators, self._states[step], strict=True):
            one.bit_generator.state = state

    @property
    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        return self.own.draws.generator, self.own.negatives.generator


class CapturedPlainTuples(CapturedProgram):
    """The program of a step over tuples without privacy, in batches of fixed size."""

    def __init__(self, step: PlainRelationStep, ahead_steps: int = AHEAD) -> None:
        """Make room for a batch."""
        self.step, self.source = step, HostTuples(step.batches, step.device)
        super().__init__(step.optimizer, [self.source], [], ahead_steps)

    def program(self) -> None:
        sums = self.step.unlimited(self.source.row).sums
        with torch.no_grad():
            self.write(sums)
            self.flat.div_(len(self.source.row))
            self.update()
