"""How far one record, or one edge, moves the buckets of votes (docs/privacy.md, section 12).

A vote is V = (l - 1 / C, a) for a probability vector l of C classes; a node with d ids in its list adds V / sqrt(max(d
+ 1, m)) to the bucket of each of them, and to its own. Sensitivities are in units of B.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

Numbers = float | np.ndarray
VotesRelation = Literal["node-null", "record-replace", "edge"]
UNLIKELY = 1 / 20  # of delta, for each event that Theorem R leaves out
FEWEST_CLASSES = 2  # bounds that depend on the number of classes are taken where they are largest


def vote_norm(*, num_classes: int, mass: float) -> float:
    """B = sqrt(1 - 1 / C + a^2): the largest norm of a vote (l - 1 / C, a), l a probability vector of C classes."""
    return math.sqrt(1 - 1 / num_classes + mass**2)


def opposed(mass: float) -> float:
    """-<V, V'> / B^2 of the most opposed two votes, max(0, 1 / C - a^2) / B^2, where it is largest: for two classes."""
    return max(0.0, 1 / FEWEST_CLASSES - mass**2) / vote_norm(num_classes=FEWEST_CLASSES, mass=mass) ** 2


def replaced_votes(mass: float) -> float:
    """Sensitivity of the buckets, in B, to a record that is replaced by any other."""
    return math.sqrt(2 * (1 + opposed(mass)))


def edge_votes(*, mass: float, degree_floor: int) -> float:
    """Sensitivity of the buckets, in B, to an edge that is in both ends' lists (docs/privacy.md, 12.3)."""
    floor, apart = degree_floor, opposed(mass)
    weight = 1 / math.sqrt(floor + 1)  # of a list of `floor` ids, the shortest that the floor does not reach
    less = 1 / math.sqrt(floor) - weight
    moved = 2 - 2 * math.sqrt(floor / (floor + 1))
    cases = [2 * (moved + 2 * apart * weight * less)]
    if floor > 1:  # lists that the floor reaches: of both ends, or of one of them
        cases += [2 / floor, 1 / floor + moved + 2 * apart * less / math.sqrt(floor)]
    return math.sqrt(max(cases))


def bounded_edge_votes(*, degree_bound: int, taper: float) -> float:
    """Sensitivity of the buckets, in B, to an edge in both ends' lists, where votes weigh `tapered_weight`: a bound."""
    return 2 * math.hypot((1 + taper) / math.sqrt(degree_bound), taper / degree_bound)


def bounded_null_votes(taper: float) -> float:
    """Sensitivity of the buckets, in B, to a record that becomes null, where votes weigh as above and by own lists.

    The most of tau (1 + kappa (1 - 2 tau)), tau = sqrt(d / D) in [0, 1].
    """
    best = min(1.0, (1 + taper) / (4 * taper)) if taper else 1.0
    return best * (1 + taper * (1 - 2 * best))


def most_voters(*, hub_limit: float, hubs_noise: float, failure: float, most: int) -> int:
    """T: votes of a receiver that is no hub, but for a probability of `failure`; `most` of a receiver at all."""
    from scipy.special import ndtri

    return min(most, math.ceil(hub_limit - float(ndtri(failure)) * hubs_noise))


def capped_receiver_votes(*, degree_bound: Numbers, margin: Numbers, degree_floor: Numbers, failure: float) -> Any:
    """Sensitivity of the buckets, in B, to a receiver that leaves, given noisy degrees (Theorem R, docs/privacy.md).

    Holds but for a probability of `failure`: no more than X of the receiver's voters, at most `degree_bound` of them,
    have a degree above their caps, and each of these moves its other votes by 1 / (2 m). Of numbers, or of arrays that
    broadcast.
    """
    from scipy.special import ndtr
    from scipy.stats import binom

    above = np.minimum(binom.isf(failure, degree_bound, ndtr(-np.asarray(margin))), degree_bound)
    return above / (2 * degree_floor)
