"""Parts of the training nodes: one per step (Igamberdiev and Habernal, section 4.4), and fresh samples of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.privacy.procedure import Batches


def equal_parts(nodes: np.ndarray, num_splits: int, generator: np.random.Generator) -> list[np.ndarray]:
    """A random partition into s parts whose sizes differ by at most 1, ids ascending within each."""
    return [np.sort(part) for part in np.array_split(generator.permutation(nodes), num_splits)]


def parts_by_id(nodes: np.ndarray, num_nodes: int, num_splits: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Every id's part is drawn for itself, whatever other nodes there are; parts may be unequal, or empty."""
    part = (generator.random(num_nodes) * num_splits).astype(np.int64)[nodes]
    return [nodes[part == index] for index in range(num_splits)]


@dataclass(frozen=True)
class FixedParts:
    """Each epoch visits every part once, in an order of its own: `nodes` is a function of the step alone."""

    parts: Sequence[np.ndarray]
    names: tuple[Name, ...]  # of the generator of the orders
    name: Batches = Batches.MASKED_PARTS
    counts: Counter[str] = field(default_factory=Counter, compare=False)  # "draws" so far in this process
    _orders: dict[int, np.ndarray] = field(default_factory=dict, compare=False)

    def nodes(self, step: int) -> np.ndarray:
        """Ids of step 0, 1, ..., ascending, maybe none."""
        self.counts["draws"] += 1
        epoch, place = divmod(step, len(self.parts))
        if len(self.parts) == 1:
            return self.parts[0]
        if epoch not in self._orders:
            self._orders.clear()
            self._orders[epoch] = numpy_generator(*self.names, epoch).permutation(len(self.parts))
        return self.parts[self._orders[epoch][place]]


@dataclass(frozen=True)
class FreshNodes:
    """Each step draws every node independently with probability `rate`: `nodes` advances the generator."""

    candidates: np.ndarray
    rate: float
    generator: np.random.Generator
    name: Batches = Batches.POISSON
    counts: Counter[str] = field(default_factory=Counter, compare=False)  # "draws" so far in this process

    def nodes(self, step: int) -> np.ndarray:
        """Ids of the next step, ascending, maybe none."""
        self.counts["draws"] += 1
        return self.candidates[PoissonSampler(len(self.candidates), self.rate).draw(self.generator)]


Schedule = FixedParts | FreshNodes
