"""Weighted sums of means and their one-sided tests, by Welch's t with unequal variances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

LEVEL = 0.05


@dataclass(frozen=True)
class Contrast:
    """sum_i w_i mean_i with its standard error and Satterthwaite's degrees of freedom."""

    estimate: float
    error: float
    degrees: float
    n: int  # seeds of the smallest sample
    unit: str = "points"

    def p_above(self, margin: float) -> float:
        """p-value against "the true value is at most `margin`"; nan where a sample has one seed only."""
        return self._p(self.estimate - margin)

    def p_below(self, margin: float) -> float:
        """p-value against "the true value is at least `margin`"."""
        return self._p(margin - self.estimate)

    def _p(self, excess: float) -> float:
        if self.n < 2:
            return np.nan
        if self.error == 0:  # every seed gave the same value
            return 0.0 if excess > 0 else 1.0
        return float(stdtr(self.degrees, -excess / self.error))


def contrast(terms: Iterable[tuple[float, str, np.ndarray]]) -> Contrast:
    """Of (weight, name, values) terms. Terms of one name are one sample: their weights add up, and cancel.

    Seeds draw independent noise and batches in every cell, so samples are taken as independent.
    """
    weights: dict[str, float] = {}
    samples: dict[str, np.ndarray] = {}
    for weight, name, values in terms:
        weights[name] = weights.get(name, 0.0) + weight
        samples[name] = np.asarray(values, dtype=float)
    kept = [name for name, weight in weights.items() if weight]
    estimate = sum(weights[name] * samples[name].mean() for name in kept)
    n = min((len(samples[name]) for name in kept), default=0)
    if n < 2:
        return Contrast(float(estimate), np.nan, np.nan, n)
    parts = np.array([weights[name] ** 2 * samples[name].var(ddof=1) / len(samples[name]) for name in kept])
    freedom = np.array([len(samples[name]) - 1 for name in kept])
    total = parts.sum()
    # Rounding of equal values leaves a variance of about (1e-16)^2, not zero.
    if total <= (1e-12 * max(1.0, abs(float(estimate)))) ** 2:
        return Contrast(float(estimate), 0.0, np.inf, n)
    return Contrast(float(estimate), float(np.sqrt(total)), float(total**2 / (parts**2 / freedom).sum()), n)
