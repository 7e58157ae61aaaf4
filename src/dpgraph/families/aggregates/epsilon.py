"""Epsilons that GAP, ProGAP and DPDGC claim: the Renyi DP of all parts, added up.

Sajadmanesh et al. (2023), theorems on edge-level and node-level privacy; ProGAP has the same sums, and its stages
differ in training only. Proofs are in the mechanisms (docs/privacy/aggregates.md, Theorems 19 and 20).
"""

from __future__ import annotations

import numpy as np

from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, Orders, epsilon_from_rdp, least_epsilon, poisson_gaussian_rdp


def node_level_epsilon(
    *, rate: float, noise_multiplier: float, steps: int, aggregations: int, sums_noise: float, delta: float
) -> float:
    """Return the claimed epsilon of subsampled Gaussian steps and K Gaussian sums.

    Args:
        rate: q.
        noise_multiplier: Noise std of a step over its clip norm.
        steps: T.
        aggregations: K.
        sums_noise: Noise std of a sum over its sensitivity.
        delta: The delta of the guarantee.
    """

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
    """Return the claimed epsilon of DPDGC: steps of vectors, one Gaussian release, and steps of the classifier.

    All noise is in units of the sensitivity that the released code charges.

    Args:
        rate: q of all steps.
        embedding_steps: T1.
        embedding_noise: Noise of a step of the vectors.
        sums_noise: Noise of the release.
        steps: T2.
        noise_multiplier: Noise of a step of the classifier.
        delta: The delta of the guarantee.
    """

    def rdp(orders: Orders) -> np.ndarray:
        total = np.asarray(orders) / (2 * sums_noise**2)
        for count, noise in ((embedding_steps, embedding_noise), (steps, noise_multiplier)):
            if count:
                total = total + count * poisson_gaussian_rdp(rate=rate, noise_multiplier=noise, orders=orders)
        return total

    return least_epsilon(WIDE_ORDERS, rdp, delta)


def edge_level_epsilon(*, aggregations: int, noise: float, delta: float) -> float:
    """Return the claimed epsilon of K sums under edge privacy; an edge moves one row of each by 1.

    Args:
        aggregations: K.
        noise: Noise std of a sum.
        delta: The delta of the guarantee.
    """
    return epsilon_from_rdp(WIDE_ORDERS, aggregations * np.asarray(WIDE_ORDERS) / (2 * noise**2), delta)
