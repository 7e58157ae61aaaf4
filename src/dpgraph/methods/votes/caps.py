"""Caps of votes under node-remove by a public rule: those for which the bucket of a mean node has the largest signal.

What is maximised is the mean over receivers of (votes that arrive, each of weight 1 / sqrt(K)) over the noise, for
degrees that are exponential with the declared mean, which is all that is assumed of the graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.privacy.vote_sensitivity import capped_votes, vote_norm
from dpgraph.problems.base import Size

POINTS = 12  # quantiles of degrees
DEGREES = -np.log1p(-(np.arange(POINTS) + 0.5) / POINTS)
MARGINS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
FLOORS = (8, 16, 32, 64, 128, 256, 512, 1024)
HUB_SHARES, HUB_LIMITS = (0.02, 0.05, 0.1, 0.2), (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
SPENT = 0.97  # of the squared mu of receivers: what is left is for the mean of the rows
UNLIKELY = 20  # delta over the chance that a theorem leaves out


@dataclass(frozen=True)
class VoteCaps:
    """Settings of a run, and the signal of a bucket over its noise that they promise."""

    signal: float = 0.0
    degrees_share: float = 0.0
    margin: float = 0.0
    floor: int = 1
    hub_share: float = 0.0
    hub_limit: float = 0.0


def best_caps(size: Size, mu: float, degree_bound: int | None, training: float) -> VoteCaps:
    """Of a grid, where training and the mean get the share `training` of a voter's squared mu.

    A receiver pays for degrees and, by S^2, for votes: the former get what is left of the latter.
    """
    degree, delta = size.entries / size.nodes, usual_delta(size.nodes)
    bound = size.nodes - 1 if degree_bound is None else degree_bound
    voters = min(size.train_nodes / size.nodes, 1.0)
    sent, received = (1 - voters) * degree * DEGREES, voters * degree * DEGREES
    most_sent = max(1, min(bound, size.nodes - size.train_nodes))
    norm, best = vote_norm(num_classes=size.classes, mass=0.0), VoteCaps()
    named = DEGREES / DEGREES.sum()  # nodes at the end of an edge, by their degrees
    for share, times in ((0.0, 0.0), *product(HUB_SHARES, HUB_LIMITS)):
        most, stays, limit = min(bound, size.train_nodes), np.ones(POINTS), 0.0
        if share:
            limit = math.ceil(times * voters * degree) + 10.0
            std = math.sqrt(most_sent / share) / mu
            reach = math.ceil(limit + normal_quantile(delta / UNLIKELY) * std)
            if reach >= most:
                continue
            most, stays = reach, 1 - normal_tail((limit - received) / std)
        votes_share = 1 - training - share
        for margin, floor in product(MARGINS, FLOORS):
            moved = _moved(most, margin, floor, delta / UNLIKELY)
            left = SPENT - moved**2 * votes_share
            if left < 0.05:
                continue
            std = math.sqrt(most / left) / mu
            weight = float((named / np.sqrt(np.maximum(sent + 1 + margin * std, floor))).sum())
            signal = float((stays * received).mean()) * weight * mu * math.sqrt(votes_share) / norm
            if signal > best.signal:
                best = VoteCaps(signal, round(left, 4), margin, floor, share, limit)
    return best


@lru_cache(maxsize=100_000)
def _moved(most: int, margin: float, floor: int, failure: float) -> float:
    return capped_votes(degree_bound=most, margin=margin, degree_floor=floor, failure=failure)


def normal_quantile(tail: float) -> float:
    """The z that a standard normal exceeds with this probability."""
    from scipy.special import ndtri

    return -float(ndtri(tail))


def normal_tail(values: np.ndarray) -> np.ndarray:
    """Probability that a standard normal exceeds each of `values`."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-values))
