"""Batches of roots. A sampler states its name, so that an accountant can refuse one that it has no theorem for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dpgraph.core.errors import invalid
from dpgraph.privacy.procedure import Batches


@dataclass(frozen=True)
class PoissonSampler:
    """Batches in which every root is with probability `rate` = q, independently; their sizes vary and may be 0."""

    num_roots: int
    rate: float
    name: ClassVar[Batches] = Batches.POISSON

    def __post_init__(self) -> None:
        _check_roots(self.num_roots)
        if not 0 < self.rate <= 1:
            raise invalid("sampling_rate", self.rate, "a number in (0, 1]")

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        """Return the positions of one batch."""
        return poisson_batch(self.num_roots, self.rate, generator)


@dataclass(frozen=True)
class FixedSizeSampler:
    """Batches that are a uniformly random set of `size` = m roots (Daigavane et al., Algorithm 4)."""

    num_roots: int
    size: int
    name: ClassVar[Batches] = Batches.FIXED_SIZE

    def __post_init__(self) -> None:
        _check_roots(self.num_roots)
        if not 1 <= self.size <= self.num_roots:
            raise invalid("batch_size", self.size, f"an integer in 1..{self.num_roots} (the number of training nodes)")

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        """Return the positions of one batch."""
        return fixed_size_batch(self.num_roots, self.size, generator)


class Sampler(Protocol):
    """A source of batches, with its name and the number of roots that it draws from."""

    name: ClassVar[Batches]

    @property
    def num_roots(self) -> int: ...

    def draw(self, generator: np.random.Generator) -> np.ndarray: ...


@dataclass
class Draws:
    """The batches of one sum of a step, drawn one after the other; `count` are drawn in this process."""

    sampler: Sampler
    generator: np.random.Generator
    count: int = 0

    def next(self) -> np.ndarray:
        """Return the positions of the roots of the next batch."""
        self.count += 1
        return self.sampler.draw(self.generator)


def poisson_batch(num_roots: int, rate: float, generator: np.random.Generator) -> np.ndarray:
    """Return (b,) ascending positions below `num_roots`, each present with probability `rate`, independently."""
    return np.flatnonzero(generator.random(num_roots) < rate)


def fixed_size_batch(num_roots: int, m: int, generator: np.random.Generator) -> np.ndarray:
    """Return (m,) distinct positions below `num_roots`; every set of m is equally likely."""
    return generator.choice(num_roots, size=m, replace=False, shuffle=False)


def _check_roots(num_roots: int) -> None:
    if num_roots < 1:
        raise invalid("num_roots", num_roots, "an integer >= 1")


def nodes_in_use(train_nodes: np.ndarray, num_nodes: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return the ids of the `count` = N training nodes that have a loss, ascending: those with the smallest priorities.

    A priority depends on the generator and the id only, so smaller shares are contained in larger ones.
    """
    if count == len(train_nodes):
        return train_nodes
    priorities = generator.random(num_nodes)[train_nodes]
    return np.sort(train_nodes[np.argsort(priorities, kind="stable")[:count]])
