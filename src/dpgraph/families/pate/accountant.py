"""Confident-GNMax of PATE (Zhang 2021, chapter 3): noise std sigma_threshold per check, sigma_votes per answer."""

from __future__ import annotations

import math

from dpgraph.privacy.accountants.gaussian import gaussian_epsilon


def published_epsilon(*, checks: int, answers: int, sigma_threshold: float, sigma_votes: float, delta: float) -> float:
    """Proposition 2: a + 2 sqrt(a ln(1/delta)), a = checks / (2 sigma_1^2) + answers / sigma_2^2.

    It charges the realised number of answers, which is private.
    """
    cost = checks / (2 * sigma_threshold**2) + answers / sigma_votes**2
    return cost + 2 * math.sqrt(cost * math.log(1 / delta))


def capped_epsilon(*, checks: int, answers: int, sigma_threshold: float, sigma_votes: float, delta: float) -> float:
    """Exact for public caps on checks (sensitivity 1) and answers (one moved vote: sqrt(2)) that stop the run."""
    return gaussian_epsilon(mu=math.sqrt(checks / sigma_threshold**2 + 2 * answers / sigma_votes**2), delta=delta)
