"""Epsilons of GAP and ProGAP as they are printed, and of DPDGC as its code counts: Renyi DP of all parts, added up.

Sajadmanesh et al. (2023), Theorems on edge-level and node-level privacy; the same sums for ProGAP, whose stages differ
in what they train only. What is proved is in the mechanisms (docs/privacy.md, Theorems A and A').
"""

from __future__ import annotations

import numpy as np

from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, Orders, epsilon_from_rdp, least_epsilon, poisson_gaussian_rdp


def node_level_epsilon(
    *, rate: float, noise_multiplier: float, steps: int, aggregations: int, sums_noise: float, delta: float
) -> float:
    """Of `steps` Poisson-subsampled Gaussian steps and K = `aggregations` sums with noise std `sums_noise` times their
    sensitivity."""

    def rdp(orders: Orders) -> np.ndarray:
        sums = aggregations * np.asarray(orders) / (2 * sums_noise**2)
        return sums + steps * poisson_gaussian_rdp(rate=rate, noise_multiplier=noise_multiplier, orders=orders)

    return least_epsilon(WIDE_ORDERS, rdp, delta)


def embedded_epsilon(
    *,
    rate: float,
    embedding_steps: int,
    embedding_noise: float,
    sums_noise: float,
    steps: int,
    noise_multiplier: float,
    delta: float,
) -> float:
    """Of DPDGC's three parts, each with its noise in units of the sensitivity that its code charges: `embedding_steps`
    subsampled Gaussian steps, one Gaussian release and `steps` more subsampled steps."""

    def rdp(orders: Orders) -> np.ndarray:
        total = np.asarray(orders) / (2 * sums_noise**2)
        for count, noise in ((embedding_steps, embedding_noise), (steps, noise_multiplier)):
            if count:
                total = total + count * poisson_gaussian_rdp(rate=rate, noise_multiplier=noise, orders=orders)
        return total

    return least_epsilon(WIDE_ORDERS, rdp, delta)


def edge_level_epsilon(*, aggregations: int, noise: float, delta: float) -> float:
    """Of K sums with noise std `noise`, an edge moving one row of each by 1, as the papers count."""
    return epsilon_from_rdp(WIDE_ORDERS, aggregations * np.asarray(WIDE_ORDERS) / (2 * noise**2), delta)
