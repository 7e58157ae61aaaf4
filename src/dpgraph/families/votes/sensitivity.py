"""Sensitivities of the buckets of votes to a record, an edge or a leaving node, in units of B (docs/privacy/votes.md).

A vote is V = (l - 1 / C, a) for a probability vector l of C classes. A node with d ids in its list adds V / sqrt(max(d
+ 1, m)) to the bucket of each of them and to its own.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

Numbers = float | np.ndarray
VotesRelation = Literal["node-null", "record-replace", "edge"]
UNLIKELY = 1 / 20  # share of delta for each event that Theorem 15 leaves out
FEWEST_CLASSES = 2  # bounds that depend on the number of classes are taken where they are largest
# Norm of the records that networks read. Their layers have a bias, whose gradient is clipped with the weights': at this
# norm it takes 1 % of the square of the clip norm, at norm 1 half of it. So no bias is learnt, and none is paid for.
ROW_NORM = 10.0


def vote_norm(*, num_classes: int, mass: float) -> float:
    """Return B = sqrt(1 - 1 / C + a^2), the largest norm of a vote (l - 1 / C, a) over probability vectors l."""
    return math.sqrt(1 - 1 / num_classes + mass**2)


def opposed(mass: float) -> float:
    """Return -<V, V'> / B^2 of the two most opposed votes: max(0, 1 / C - a^2) / B^2.

    It is largest for two classes, which are assumed.
    """
    return max(0.0, 1 / FEWEST_CLASSES - mass**2) / vote_norm(num_classes=FEWEST_CLASSES, mass=mass) ** 2


def replaced_votes(mass: float) -> float:
    """Return the sensitivity of the buckets, in B, to a record that any other one replaces."""
    return math.sqrt(2 * (1 + opposed(mass)))


def edge_votes(*, mass: float, degree_floor: int) -> float:
    """Return the sensitivity of the buckets, in B, to an edge in both ends' lists (Theorem 13,
    docs/privacy/votes.md)."""
    floor, apart = degree_floor, opposed(mass)
    weight = 1 / math.sqrt(floor + 1)  # in a list of `floor` ids, the shortest that the floor leaves as it is
    less = 1 / math.sqrt(floor) - weight
    moved = 2 - 2 * math.sqrt(floor / (floor + 1))
    cases = [2 * (moved + 2 * apart * weight * less)]
    if floor > 1:  # lists that the floor reaches: of both ends, or of one of them
        cases += [2 / floor, 1 / floor + moved + 2 * apart * less / math.sqrt(floor)]
    return math.sqrt(max(cases))


def bounded_edge_votes(*, degree_bound: int, taper: float) -> float:
    """Return an upper bound, in B, on what an edge in both ends' lists moves under a degree bound D (Theorem 14)."""
    return 2 * math.hypot((1 + taper) / math.sqrt(degree_bound), taper / degree_bound)


def bounded_null_votes(taper: float) -> float:
    """Return the sensitivity of the buckets, in B, to a record that becomes null, under a degree bound (Theorem 16).

    It is the maximum of tau (1 + kappa (1 - 2 tau)) over tau = sqrt(d / D) in [0, 1].
    """
    best = min(1.0, (1 + taper) / (4 * taper)) if taper else 1.0
    return best * (1 + taper * (1 - 2 * best))


def most_voters(*, hub_limit: float, hubs_noise: float, failure: float, most: int) -> int:
    """Return T, the most votes of a receiver that is no hub, except with probability `failure`.

    Args:
        hub_limit: H.
        hubs_noise: Noise std of the numbers of voters.
        failure: Probability of the event that is left out.
        most: The most votes of any receiver.
    """
    from scipy.special import ndtri

    return min(most, math.ceil(hub_limit - float(ndtri(failure)) * hubs_noise))


def capped_receiver_votes(*, degree_bound: Numbers, margin: Numbers, degree_floor: Numbers, failure: float) -> Any:
    """Return S, the sensitivity of the buckets, in B, to a receiver that leaves, given noisy degrees (Theorem 15).

    It holds except with probability `failure`: at most X of the receiver's voters have a degree above their caps, and
    each of these moves its other votes by 1 / (2 m).

    Args:
        degree_bound: The most voters of a receiver.
        margin: z of the caps.
        degree_floor: m.
        failure: Probability of the event that is left out.

    Returns:
        X / (2 m), a number or an array; arguments broadcast.
    """
    from scipy.special import ndtr
    from scipy.stats import binom

    chance = ndtr(-np.asarray(margin))
    above = binom.isf(failure, degree_bound, chance)
    # the quantile is too small where 1 - chance rounds to 1; the tail itself is exact to rounding
    while np.any(short := binom.sf(above, degree_bound, chance) > failure):
        above = above + short
    return np.minimum(above, degree_bound) / (2 * degree_floor)
