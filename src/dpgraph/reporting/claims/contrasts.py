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
        samples[name] = values
    # (weight, values) of each sample: plain arrays, since a claim may have hundreds of contrasts
    parts = [(weight, samples[name].to_numpy(float)) for name, weight in weights.items() if weight]
    estimate = float(sum(weight * (values.mean() if len(values) else np.nan) for weight, values in parts))
    n = min((len(values) for _, values in parts), default=0)
    if n < 2:
        return Contrast(estimate, np.nan, np.nan, n)
    seeds = [samples[name].index for name, weight in weights.items() if weight]
    if all(own.equals(seeds[0]) for own in seeds):
        each = np.array(sum(weight * values for weight, values in parts))
        square, degrees = each.var(ddof=1) / n, n - 1.0
        residuals = each - each.mean()
    else:
        # seeds that cells do not have in common: their residuals in the order of the seeds, as if they had
        residuals = np.array(sum(weight * (values - values.mean())[:n] for weight, values in parts))
        squares = np.array([weight**2 * values.var(ddof=1) / len(values) for weight, values in parts])
        square = squares.sum()
        freedom = np.array([len(values) - 1 for _, values in parts])
        degrees = float(square**2 / (squares**2 / freedom).sum()) if square else np.inf
    # Rounding of equal values leaves a variance of about (1e-16)^2, not zero.
    largest = max(abs(weight) * float(np.abs(values).max()) for weight, values in parts)
    if square <= (1e-12 * max(1.0, largest)) ** 2:
        return Contrast(estimate, 0.0, np.inf, n, residuals=np.zeros(n))
    return Contrast(estimate, float(np.sqrt(square)), degrees, n, residuals=residuals)
