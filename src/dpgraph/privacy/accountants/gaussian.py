"""The Gaussian mechanism and Gaussian DP (Dong, Roth & Su 2022; Balle & Wang 2018)."""

from __future__ import annotations

from functools import lru_cache

import dp_accounting
import numpy as np
from scipy.special import log_ndtr, ndtr


def gaussian_delta(*, mu: float, epsilon: float | np.ndarray) -> float | np.ndarray:
    """Return delta of mu-GDP: Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2) (Balle & Wang 2018, Theorem 8)."""
    return ndtr(-epsilon / mu + mu / 2) - np.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))


@lru_cache(maxsize=100_000)  # a plan's public rules solve for the mu of few budgets, for hundreds of cells
def gaussian_epsilon(*, mu: float, delta: float) -> float:
    """Return the epsilon of mu-GDP, exact to 1e-12, mu = sensitivity / noise std; T steps compose to mu * sqrt(T).

    >>> round(gaussian_epsilon(mu=2 / 26 * 2000**0.5, delta=1e-5), 3)
    19.941
    """
    if mu <= 0:
        return 0.0
    with np.errstate(divide="ignore"):  # where delta is 0 or covers every output
        return float(dp_accounting.get_epsilon_gaussian(1 / mu, delta))
