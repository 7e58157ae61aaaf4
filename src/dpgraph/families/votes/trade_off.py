"""Bounds on what a test for one record gains: a proved trade-off curve and two of its numbers (privacy.md, 12.14)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpgraph.families.votes.epsilon import released_errors

FALSE_ALARMS = 0.01  # share of absent records that a test may take for present
LEAST_MU = 1e-9  # what no Gaussian part is taken for: more than it leaks
SURE = 700.0  # a loss whose exponential has no number: such a test is taken for certain
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
