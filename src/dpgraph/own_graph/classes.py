"""The choice of classes that the user does not state: noisy counts above a threshold (docs/reference/own-graph.md).

A class that no label names gets no noise, so one whose only label leaves may be told by its name alone: the threshold
bounds the probability of that (Korolova et al. 2009). Noise is two-sided geometric, sampled exactly with integers
(Ghosh et al. 2009; Canonne et al. 2020, Algorithms 1 and 2).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpgraph.core.errors import UserError, invalid
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.records import TRAIN
from dpgraph.own_graph.graph import OwnGraph
from dpgraph.privacy.guarantee import at_most
from dpgraph.privacy.relation import Relation

SHARE = 0.1  # of epsilon
DELTA_SHARE = 0.25  # of delta
FINEST = 2**20  # denominators of epsilon
FEWEST = 2  # classes of a model

Below = Callable[[int], int]  # a uniform integer in [0, n)


@dataclass(frozen=True)
class ClassSelection:
    """(epsilon, delta) of one label that leaves or joins, and the least noisy count of a class that is kept.

    A label moves one count by 1, which costs `epsilon`. Where it is the only one of its class, outputs without this
    class have the same law on both sides but for the probability that it is kept, at most `delta`.
    """

    epsilon: Fraction
    delta: float

    @classmethod
    def within(cls, *, epsilon: float, delta: float) -> ClassSelection:
        """Return the selection that a run of this budget pays for. Raises UserError for too small an epsilon."""
        share = Fraction(math.floor(SHARE * epsilon * FINEST), FINEST)
        if not share:
            raise UserError(f"--epsilon {epsilon:g}: too small to choose classes by noisy counts: expected --classes")
        return cls(share, DELTA_SHARE * delta)

    @property
    def threshold(self) -> int:
        """The least t with P(1 + Z >= t) = e^(-epsilon (t - 1)) / (1 + e^-epsilon) <= delta."""
        epsilon = float(self.epsilon)
        return 1 + max(1, math.ceil((-math.log(self.delta) - math.log1p(math.exp(-epsilon))) / epsilon))

    def check(self, nodes: int) -> None:
        """Raise UserError, before anything is charged, where so many nodes that train hardly make two classes."""
        if nodes < FEWEST * self.threshold:
            least = f"at least {FEWEST * self.threshold}, {self.threshold} for each of {FEWEST} classes"
            raise invalid("nodes that train", nodes, f"{least} chosen by noisy counts: state --classes, which is free, "
                          "or a larger --epsilon")  # fmt: skip

    def charged_under(self, relation: Relation) -> bool:
        """Return whether neighbours may differ in a label; an edge changes none."""
        return relation is not Relation.EDGE

    @property
    def text(self) -> str:
        return (
            f"which classes there are, and about how many labels each has to train on: noisy counts of at least "
            f"{self.threshold}, two-sided geometric noise (ε = {at_most(float(self.epsilon), digits=4)}, "
            f"δ = {at_most(self.delta, digits=3)})"
        )


def select_classes(own: OwnGraph, selection: ClassSelection, seed: int | None) -> tuple[OwnGraph, int]:
    """Return the graph with the classes whose noisy counts are kept, and the sum of these counts.

    A label of any other class is none. Without `seed` all noise is the operating system's. Raises UserError where
    fewer than two classes are kept; the release then ends.
    """
    trained = own.labels[(own.labels >= 0) & (own.roles == TRAIN)]
    counts = np.bincount(trained, minlength=len(own.classes))
    noisy = noisy_counts(counts, selection.epsilon, uniform_below(seed))
    kept = np.flatnonzero((counts > 0) & (noisy >= selection.threshold))
    if len(kept) < FEWEST:
        raise UserError(
            f"{own.where}: {len(kept)} classes have a noisy count of labels of at least {selection.threshold}: "
            f"expected {FEWEST}: state the public class list (--classes), which is free; this try released no model, "
            "but this try is charged"
        )
    place = np.full(len(own.classes) + 1, -1, dtype=np.int64)  # the last one: no label
    place[kept] = np.arange(len(kept))
    classes = tuple(own.classes[one] for one in kept.tolist())
    return replace(own, classes=classes, labels=place[own.labels]), int(noisy[kept].sum())


def noisy_counts(counts: np.ndarray, epsilon: Fraction, below: Below) -> np.ndarray:
    """Return (C,) `counts` with noise of their own each; those that are 0 are to be left out."""
    return np.asarray([count + two_sided_geometric(epsilon, below) for count in counts.tolist()], dtype=np.int64)


def uniform_below(seed: int | None) -> Below:
    """Return the source of uniform integers: the operating system's generator, or that of a known seed."""
    if seed is None:
        return secrets.randbelow
    generator = numpy_generator("dpgraph", "fit", "classes", seed)
    return lambda most: int(generator.integers(most))


def two_sided_geometric(epsilon: Fraction, below: Below) -> int:
    """Draw Z with P(Z = z) proportional to e^(-epsilon |z|), exactly so."""
    above, under = epsilon.numerator, epsilon.denominator
    while True:
        rest = below(under)
        if not happens(Fraction(rest, under), below):
            continue
        whole = 0
        while happens(Fraction(1), below):
            whole += 1
        size, negative = (rest + under * whole) // above, below(2)
        if size or not negative:
            return -size if negative else size


def happens(exponent: Fraction, below: Below) -> bool:
    """Draw True with probability e^-exponent, exactly so, for an exponent from 0 to 1."""
    count = 1
    while below(exponent.denominator * count) < exponent.numerator:
        count += 1
    return count % 2 == 1
