"""DP-APPR: private approximate personalised PageRank vectors of M nodes (Zhang 2021, chapter 5)."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from dpgraph.privacy.composition import composed_epsilon, gaussian_pair
from dpgraph.privacy.double_mixture import affected_roots_pair
from dpgraph.privacy.renyi import WIDE_ORDERS, epsilon_from_rdp


def _composed_rows(row_epsilon: float, rows: int, row_delta: float) -> float:
    """eps_g with eps_row = eps_g / (2 sqrt(M ln(e + eps_g / (2 M delta)))); the left side over the root increases."""

    def gap(epsilon: float) -> float:
        return epsilon - 2 * row_epsilon * math.sqrt(rows * math.log(math.e + epsilon / (2 * rows * row_delta)))

    high = max(1.0, row_epsilon)
    while gap(high) < 0:
        high *= 2
    return float(brentq(gap, 0.0, high, xtol=1e-12, rtol=1e-14))


def theorem6_epsilon(rows: int, noise: float, row_delta: float) -> float:
    """Theorem 6, Gaussian: noise = std / C1 of every row; total (epsilon, 2 M row_delta)."""
    return _composed_rows(math.sqrt(2 * math.log(1.25 / row_delta)) / noise, rows, row_delta)


def theorem7_epsilon(
    rows: int, top_k: int, eps_gumbel: float, row_delta: float, eps_laplace: float | None = None
) -> float:
    """Theorem 7, exponential mechanism: Gumbel scale C2 / eps_gumbel; option 2 adds Laplace(K C2 / eps_laplace).

    The thesis prints eps^(2 eps) where e^(2 eps) is meant.
    """
    tanh = math.tanh(eps_gumbel)  # (e^(2 eps) - 1) / (e^(2 eps) + 1)
    pure = top_k * eps_gumbel
    row = 2 * min(pure, pure * tanh + eps_gumbel * math.sqrt(2 * top_k * math.log(1 / row_delta)))
    return _composed_rows(row + (eps_laplace or 0.0), rows, row_delta)


def theorem8_epsilon(pagerank: float, training: float, sampled_share: float) -> float:
    """Theorem 8 as printed: (eps_pr + eps_sgd) q'. Sampling once gives ln(1 + q'(e^eps - 1)) instead."""
    return sampled_share * (pagerank + training)


def exponential_epsilon(
    rows: int, top_k: int, eps_gumbel: float, delta: float, eps_laplace: float | None = None
) -> float:
    """Rigorous: each of M K draws has bounded range 2 eps, so is eps^2/2-zCDP; Laplace noise adds eps^2/2 per row."""
    rho = rows * (top_k * eps_gumbel**2 / 2 + (eps_laplace or 0.0) ** 2 / 2)
    return epsilon_from_rdp(WIDE_ORDERS, rho * np.asarray(WIDE_ORDERS), delta)


def gaussian_then_training_epsilon(
    rows: int, noise: float, column_support: int, rate: float, sgd_noise: float, steps: int, delta: float
) -> float:
    """Rigorous DP-APPR: the M rows in one Gaussian mechanism (noise = std / C1, non-negative rows of norm <= C1), then
    Poisson DP-SGD over the M roots, sgd_noise = std / clip norm, with at most `column_support` rows that name a node.

    Capping the columns of the released vectors is free; a node changes column_support roots and its own.
    """
    pair = affected_roots_pair(column_support + 1, rate, sgd_noise)
    return composed_epsilon(pair, steps, delta, once=gaussian_pair(math.sqrt(2 * rows) / noise))
