"""Weighted sums of means and their one-sided t tests, of each seed's own sum where all cells ran the same seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import stdtr

LEVEL = 0.05


@dataclass(frozen=True)
class Contrast:
    """sum_i w_i mean_i with its standard error and degrees of freedom."""

    estimate: float
    error: float
    degrees: float
    n: int  # seeds of the smallest sample
    unit: str = "points"
    residuals: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False)  # (n,) each seed's sum, centred
    printed: float | None = None  # what the paper's own numbers give for it, the mean over data sets that print all
    printed_elsewhere: bool = False  # on the paper's data sets, which are not those that are compared
    difference: bool = True  # weights add up to 0, so that its value is 0 where all means are equal
    by_data_set: Mapping[str, float] = field(default_factory=dict, compare=False)  # estimates, where it is of a mean

    def p_above(self, margin: float) -> float:
        """p-value against "the true value is at most `margin`"; nan where a sample has one seed only."""
        return self._p(self.estimate - margin)

    def p_below(self, margin: float) -> float:
        """p-value against "the true value is at least `margin`"."""
        return self._p(margin - self.estimate)

    def _p(self, excess: float) -> float:
        if self.n < 2:
            return np.nan
        if self.error == 0:  # every seed gave the same value: n equal signs, as in a sign test
            return 0.5**self.n if excess > 0 else 1.0
        return float(stdtr(self.degrees, -excess / self.error))


def contrast(terms: Iterable[tuple[float, str, pd.Series]]) -> Contrast:
    """Of (weight, name, values by seed) terms. Terms of one name are one sample: their weights add up, and cancel.

    A seed stands for a split and an initialisation that all cells have in common, so its values are correlated: the
    test is Student's on the n sums of one seed each, with n - 1 degrees of freedom. Where the cells' seeds are not the
    same (one failed), samples are taken as independent: Welch's test, with Satterthwaite's degrees of freedom.
    """
    weights: dict[str, float] = {}
    samples: dict[str, pd.Series] = {}
    for weight, name, values in terms:
        weights[name] = weights.get(name, 0.0) + weight
        samples[name] = values.astype(float)
    kept = [name for name, weight in weights.items() if weight]
    estimate = float(sum(weights[name] * samples[name].mean() for name in kept))
    n = min((len(samples[name]) for name in kept), default=0)
    if n < 2:
        return Contrast(estimate, np.nan, np.nan, n)
    if all(samples[name].index.equals(samples[kept[0]].index) for name in kept):
        each = np.array(sum(weights[name] * samples[name].to_numpy() for name in kept))
        square, degrees = each.var(ddof=1) / n, n - 1.0
        residuals = each - each.mean()
    else:
        # seeds that cells do not have in common: their residuals in the order of the seeds, as if they had
        columns = [weights[name] * (samples[name] - samples[name].mean()).to_numpy()[:n] for name in kept]
        residuals = np.array(sum(columns))
        parts = np.array([weights[name] ** 2 * samples[name].var(ddof=1) / len(samples[name]) for name in kept])
        square = parts.sum()
        freedom = np.array([len(samples[name]) - 1 for name in kept])
        degrees = float(square**2 / (parts**2 / freedom).sum()) if square else np.inf
    # Rounding of equal values leaves a variance of about (1e-16)^2, not zero.
    largest = max(abs(weights[name]) * float(samples[name].abs().max()) for name in kept)
    if square <= (1e-12 * max(1.0, largest)) ** 2:
        return Contrast(estimate, 0.0, np.inf, n, residuals=np.zeros(n))
    return Contrast(estimate, float(np.sqrt(square)), degrees, n, residuals=residuals)
