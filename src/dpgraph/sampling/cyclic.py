"""Cyclic Poisson batches: roots are in b groups that take turns, so that none is drawn twice within b steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dpgraph.errors import invalid
from dpgraph.privacy.procedure import Batches
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.batches import Draws


@dataclass(frozen=True, eq=False)
class CyclicSampler:
    """Step i draws each root of group i mod b independently, with probability `rate` = b q, and nobody else."""

    groups: np.ndarray  # (N,) of each root, 0 to b - 1: public, and no function of any record
    num_parts: int  # b
    rate: float
    name: ClassVar[Batches] = Batches.CYCLIC_POISSON

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise invalid("sampling_rate", self.rate, "a number in (0, 1]")

    @property
    def num_roots(self) -> int:
        return len(self.groups)

    @property
    def expected_size(self) -> float:
        """q N, whatever the step: groups differ by at most one root."""
        return self.rate * self.num_roots / self.num_parts

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        raise TypeError("a cyclic batch is that of a step: draw it with CyclicDraws")

    def of_group(self, group: int, generator: np.random.Generator) -> np.ndarray:
        """Ascending positions."""
        members = np.flatnonzero(self.groups == group)
        return np.asarray(members[generator.random(len(members)) < self.rate])


@dataclass
class CyclicDraws(Draws):
    """Batches of the steps `first`, `first` + 1, ...; notes after how many steps a group comes back."""

    first: int = 0
    _seen: dict[int, int] = field(default_factory=dict)
    _apart: int | None = None

    def next(self) -> np.ndarray:
        sampler = self.sampler
        if not isinstance(sampler, CyclicSampler):
            raise TypeError(f"{sampler.name}: expected cyclic batches")
        step = self.first + self.count
        self.count += 1
        group = step % sampler.num_parts
        if group in self._seen:
            gap = step - self._seen[group]
            self._apart = gap if self._apart is None else min(gap, self._apart)
        self._seen[group] = step
        return sampler.of_group(group, self.generator)

    def start_at(self, step: int) -> None:
        self.first = step - self.count

    @property
    def apart(self) -> int | None:
        """Fewest steps from one batch of a group to its next; None: no group has come back."""
        return self._apart


def public_groups(num_roots: int, bands: int, key: int) -> np.ndarray:
    """(N,) groups of equal size, but for one root, by a public shuffle of the roots' places: no record is read."""
    places = numpy_generator("groups of bands", key).permutation(num_roots)
    groups = np.empty(num_roots, dtype=np.int64)
    groups[places] = np.arange(num_roots) % bands
    return groups
