"""Public rule for the caps of votes under node-remove: the settings with the largest signal in a mean node's bucket.

The signal is the mean over receivers of (arriving votes, each of weight 1 / sqrt(K)) over the noise. The only
assumption on the graph is that degrees are exponential with the declared mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from dpgraph.families.votes.sensitivity import capped_receiver_votes, vote_norm
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.problems.base import Size

POINTS = 12  # quantiles of degrees
DEGREES = -np.log1p(-(np.arange(POINTS) + 0.5) / POINTS)
MARGINS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
FLOORS = (8, 16, 32, 64, 128, 256, 512, 1024)
HUB_SHARES, HUB_LIMITS = (0.02, 0.05, 0.1, 0.2), (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
SPENT = 0.97  # share of a receiver's squared mu; the rest pays for the mean of the rows
LEAST_DEGREES = 0.05  # least share of noisy degrees
UNLIKELY = 20  # delta over the probability of each event that Theorem 15 leaves out


@dataclass(frozen=True)
class VoteCaps:
    """Settings of a run, and the signal over noise that a bucket has with them."""

    signal: float = 0.0
    degrees_share: float = 0.0
    margin: float = 0.0
    floor: int = 1
    hub_share: float = 0.0
    hub_limit: float = 0.0


def best_caps(size: Size, mu: float, degree_bound: int | None, training: float) -> VoteCaps:
    """Return the caps with the largest signal on a grid.

    A receiver pays for degrees and, by S^2, for votes. The degrees get what the votes leave.

    Args:
        size: Declared numbers of the data set.
        mu: mu of the whole budget.
        degree_bound: D of a schema; None: the number of other nodes.
        training: Share of a voter's squared mu for training and the mean of the rows.

    Returns:
        The caps; those of signal 0 if no setting can be paid for.
    """
    degree, failure = size.entries / size.nodes, usual_delta(size.nodes) / UNLIKELY
    bound = size.nodes - 1 if degree_bound is None else degree_bound
    voters = min(size.train_nodes / size.nodes, 1.0)
    sent, received = (1 - voters) * degree * DEGREES, voters * degree * DEGREES
    most_sent = max(1, min(bound, size.nodes - size.train_nodes))
    stages = [HubStage(0.0, 0.0, min(bound, size.train_nodes), received.mean())]
    for share, times in product(HUB_SHARES, HUB_LIMITS):
        hub_limit = math.ceil(times * voters * degree) + 10.0
        std = math.sqrt(most_sent / share) / mu
        reach = math.ceil(hub_limit + normal_quantile(failure) * std)
        if reach < stages[0].most:
            stays = 1 - normal_tail((hub_limit - received) / std)
            stages.append(HubStage(share, hub_limit, reach, (stays * received).mean()))
    # arrays of stages x margins x floors
    share, _, most, arriving = (column[:, None, None] for column in np.array(stages).T)
    margin, floor = np.array(MARGINS)[:, None], np.array(FLOORS)
    votes_share = 1 - training - share
    moved = capped_receiver_votes(degree_bound=most, margin=margin, degree_floor=floor, failure=failure)
    left = SPENT - moved**2 * votes_share
    paid = left >= LEAST_DEGREES
    std = np.sqrt(most / np.where(paid, left, 1.0)) / mu
    named = DEGREES / DEGREES.sum()  # nodes at the end of an edge, by their degrees
    caps = np.maximum(sent + 1 + (margin * std)[..., None], floor[:, None])
    weight = (named / np.sqrt(caps)).sum(axis=-1)
    norm = vote_norm(num_classes=size.classes, mass=0.0)
    signal = np.where(paid, arriving * weight * mu * np.sqrt(votes_share) / norm, 0.0)
    best = stage, of_margin, of_floor = np.unravel_index(signal.argmax(), signal.shape)
    if not signal[best] > 0:
        return VoteCaps()
    return VoteCaps(
        float(signal[best]),
        float(np.round(left[best], 4)),
        MARGINS[of_margin],
        FLOORS[of_floor],
        stages[stage].share,
        stages[stage].limit,
    )


class HubStage(NamedTuple):
    """One way to find hubs, or to find none."""

    share: float
    limit: float
    most: int  # voters of a receiver at most
    arriving: float  # mean number of votes of a receiver


def normal_quantile(tail: float) -> float:
    """Return the z that a standard normal exceeds with probability `tail`."""
    from scipy.special import ndtri

    return -float(ndtri(tail))


def normal_tail(values: np.ndarray) -> np.ndarray:
    """Return the probability that a standard normal exceeds each of `values`."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-values))
