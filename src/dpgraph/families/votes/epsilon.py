"""Epsilon of DP-Votes: steps on own records, Gaussian releases and one choice (docs/privacy/votes.md); and its
trade-off.

The trade-off curve bounds every test for one record (docs/privacy/votes.md#what-a-test-for-one-record-gains).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpgraph.core.errors import invalid
from dpgraph.families.votes.sensitivity import VotesRelation, edge_votes, replaced_votes
from dpgraph.privacy.accountants.composition import ComposedPair, Pair, PureDp, composed_epsilon, gaussian_pair
from dpgraph.privacy.accountants.double_mixture import affected_roots_pair
from dpgraph.privacy.accountants.gaussian import gaussian_delta, gaussian_epsilon

if TYPE_CHECKING:
    import numpy as np
from dataclasses import dataclass

import numpy as np

HALVINGS = 60  # number of halvings of the interval that holds an epsilon


def votes_epsilon(
    *,
    rate: float,
    noise_multiplier: float,
    steps: int,
    mean_mu: float,
    votes_mu: float,
    reader_mu: float = 0.0,
    choice_epsilon: float,
    mass: float,
    degree_floor: int,
    delta: float,
    relation: VotesRelation = "node-null",
) -> float:
    """Return the epsilon of a whole run of DP-Votes at `delta`.

    A record that becomes null moves each part by one unit and all utilities in one direction. A replaced record moves
    steps and mean by two units, votes by sqrt(2 (1 + r)) and utilities in any direction. An edge moves votes, and the
    utilities and gradients of its two ends, each gradient by two units.

    Args:
        rate: q, Poisson rate of the steps.
        noise_multiplier: Noise std of a step over its clip norm.
        steps: T.
        mean_mu: 1 / noise std of the mean of the rows, per unit of sensitivity; 0: no such release.
        votes_mu: The same for the buckets.
        reader_mu: The same for all steps of a learnt reader together, per clip norm.
        choice_epsilon: Price of the choice of a reader; 0: no choice.
        mass: a, which counts voters.
        degree_floor: m; votes weigh 1 / sqrt(max(d + 1, m)).
        delta: The delta of the guarantee.
        relation: The neighbouring relation.
    """
    moved, mu, choice = moved_parts(
        mean_mu=mean_mu, votes_mu=votes_mu, reader_mu=reader_mu, choice_epsilon=choice_epsilon,
        mass=mass, degree_floor=degree_floor, relation=relation,
    )  # fmt: skip
    pure: tuple[Pair, ...] = (PureDp(choice),) if choice else ()
    if moved and rate < 1:
        once = (*((gaussian_pair(mu),) if mu else ()), *pure)
        step = affected_roots_pair(
            affected_roots=1, rate=rate, noise_std=noise_multiplier, own_root_removed=relation == "node-null"
        )
        together = ComposedPair(once) if len(once) > 1 else once[0] if once else None
        return composed_epsilon(step, steps=steps, delta=delta, once=together)
    mu = math.hypot(moved * math.sqrt(steps) / noise_multiplier, mu)
    return released_epsilon(mu=mu, choice=choice, delta=delta)


def moved_parts(
    *,
    mean_mu: float,
    votes_mu: float,
    reader_mu: float,
    choice_epsilon: float,
    mass: float,
    degree_floor: int,
    relation: VotesRelation,
) -> tuple[int, float, float]:
    """Return the units by which a step moves under `relation`, and mu and choice epsilon of the other parts.

    Arguments are those of `votes_epsilon`.
    """
    if relation == "edge":
        mu = math.hypot(edge_votes(mass=mass, degree_floor=degree_floor) * votes_mu, 4 * reader_mu)
        return 0, mu, 4 * choice_epsilon
    if relation == "record-replace":
        mu = math.hypot(2 * mean_mu, replaced_votes(mass) * votes_mu, 2 * reader_mu)
        return 2, mu, 2 * choice_epsilon
    if relation == "node-null":
        return 1, math.hypot(mean_mu, votes_mu, reader_mu), choice_epsilon
    raise invalid("relation", relation, "node-null, record-replace or edge")


def released_epsilon(*, mu: float, choice: float, delta: float) -> float:
    """Return the epsilon of a Gaussian mechanism of `mu` composed with a pure one of `choice`.

    0 means that there is no mechanism of that kind.
    """
    if not mu or not choice:
        return gaussian_epsilon(mu=mu, delta=delta) if mu else choice
    return gaussian_and_choice_epsilon(mu=mu, choice=choice, delta=delta)


def gaussian_and_choice_epsilon(*, mu: float, choice: float, delta: float) -> float:
    """Return an upper bound, tight to rounding, on the epsilon of a Gaussian mechanism composed with a pure one.

    Randomised response dominates the pure mechanism. Its loss is +choice with probability p = e^choice / (1 +
    e^choice), else -choice. So delta(eps) = p d(eps - choice) + (1 - p) d(eps + choice), d that of the Gaussian.

    Args:
        mu: mu of the Gaussian mechanism, > 0.
        choice: Epsilon of the pure mechanism, > 0.
        delta: The delta of the guarantee.
    """
    yes = 1 / (1 + math.exp(-choice))

    def excess(epsilon: float) -> float:
        first, second = (float(gaussian_delta(mu=mu, epsilon=epsilon + shift)) for shift in (-choice, choice))
        return yes * first + (1 - yes) * second - delta

    # at most what both cost apart
    low, high = 0.0, gaussian_epsilon(mu=mu, delta=delta) + choice
    if excess(low) <= 0:
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def released_errors(*, mu: float, choice: float, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of type I and II of likelihood ratio tests for one record.

    The mechanism is a Gaussian one of `mu` > 0 composed with randomised response of `choice`, which dominates every
    mechanism that `gaussian_and_choice_epsilon` bounds: no test has smaller errors of both types (Dong et al. 2022).

    Args:
        mu: mu of the Gaussian mechanism.
        choice: Epsilon of the pure mechanism.
        thresholds: (n,) losses above which a test decides that the record is present.

    Returns:
        (n,) and (n,): both errors.
    """
    from scipy.special import ndtr

    yes = 1 / (1 + math.exp(-choice))
    less, more = ((thresholds + shift) / mu + mu / 2 for shift in (-choice, choice))
    first = yes * ndtr(-more) + (1 - yes) * ndtr(-less)
    second = yes * ndtr(less - mu) + (1 - yes) * ndtr(more - mu)
    return first, second


FALSE_ALARMS = 0.01  # share of absent records that a test may take for present
LEAST_MU = 1e-9  # stands for no Gaussian part: more than it leaks
SURE = 700.0  # losses beyond this overflow: such a test is taken for certain
MOST_Z = 6.0  # a curve ends where an error is a billionth


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """A Gaussian mechanism of `mu`, a pure one of epsilon `choice`, and events of probability `failure`, composed.

    No test for one record has smaller errors than these parts together allow, however the parts depend on each other.
    """

    mu: float
    choice: float = 0.0
    failure: float = 0.0

    @property
    def reach(self) -> float:
        """Return the loss beyond which no threshold changes a test."""
        mu = max(self.mu, LEAST_MU)
        return mu * (mu / 2 + MOST_Z) + self.choice

    def errors(self, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return least errors of type I and II of tests with these `thresholds` (n,) of the loss, each (n,)."""
        mu = max(self.mu, LEAST_MU)
        first, second = released_errors(mu=mu, choice=self.choice, thresholds=thresholds)
        return first, np.maximum(second - self.failure, 0.0)

    @property
    def advantage(self) -> float:
        """Return the most that true positives exceed false positives by, over all tests.

        >>> round(TradeOff(mu=1.0).advantage, 4)  # 2 Phi(1 / 2) - 1
        0.3829
        """
        first, second = released_errors(mu=max(self.mu, LEAST_MU), choice=self.choice, thresholds=np.zeros(1))
        return min(1.0, float(1 - first[0] - second[0]) + self.failure)

    @property
    def true_positives(self) -> float:
        """Return the largest share of present records that a test finds at FALSE_ALARMS.

        TPR <= e^t FPR + delta(t) for every loss t, so an inexact root t is on the safe side.
        """
        from scipy.optimize import brentq

        mu = max(self.mu, LEAST_MU)

        def errors(loss: float) -> tuple[float, float]:
            first, second = released_errors(mu=mu, choice=self.choice, thresholds=np.array([loss]))
            return float(first[0]), float(second[0])

        loss = float(brentq(lambda loss: errors(loss)[0] - FALSE_ALARMS, -self.reach, self.reach))
        if loss > SURE:
            return 1.0
        first, second = errors(loss)
        return min(1.0, 1 - second + math.exp(loss) * (FALSE_ALARMS - first) + self.failure)
