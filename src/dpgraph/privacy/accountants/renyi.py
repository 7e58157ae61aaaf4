"""Renyi DP: conversions, the moments accountant, Poisson-subsampled Gaussian, and Theorem 1 of Daigavane et al.

Orders alpha > 1; an RDP value is gamma in D_alpha <= gamma for one step, and T steps compose to T * gamma.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal

import dp_accounting
import numpy as np
from scipy.special import logsumexp
from scipy.stats import hypergeom

Conversion = Literal["classic", "improved"]
Orders = tuple[float, ...]

GNN_ORDERS: Orders = tuple(order / 10 for order in range(11, 100))  # the released accountant of DP-GNN
MLP_ORDERS: Orders = tuple(order / 10 for order in range(11, 2000))  # the released accountant of DP-MLP
REAL_ORDERS: Orders = tuple((1 + np.geomspace(0.011, 1e6, 120)).tolist())  # below 1.01 the conversion is unstable
SMALLEST_RDP = 1e-15
WHOLE = 16  # up to here whole orders are always looked at
SPACING = 32  # of the orders that are looked at first
CHUNK = 1 << 20  # array elements per evaluation
WIDE_ORDERS: Orders = tuple(1 + order / 100 for order in range(1, 1000)) + tuple(map(float, range(11, 257)))


def epsilon_from_rdp(orders: Orders, rdp: np.ndarray, delta: float, conversion: Conversion = "improved") -> float:
    """Return the smallest epsilon over the orders.

    classic: gamma + ln(1/delta) / (alpha - 1) (Mironov 2017, Proposition 3). improved: gamma + ln((alpha - 1)/alpha) -
    (ln delta + ln alpha) / (alpha - 1) (Balle et al. 2020; Canonne et al. 2020, Proposition 12).
    """
    if conversion == "improved":
        return float(dp_accounting.rdp.compute_epsilon(orders, rdp, delta)[0])
    return max(0.0, float(np.min(rdp + math.log(1 / delta) / (np.asarray(orders) - 1))))


@lru_cache(maxsize=256)
def poisson_gaussian_rdp(*, rate: float, noise_multiplier: float, orders: Orders) -> np.ndarray:
    """Return (orders,) divergences of one step of the Poisson-subsampled Gaussian mechanism."""
    accountant = dp_accounting.rdp.RdpAccountant(np.asarray(orders))
    event: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(noise_multiplier)
    if rate < 1:
        event = dp_accounting.PoissonSampledDpEvent(rate, event)
    with quiet():
        accountant.compose(event)
    # Rounding may bring a vanishing divergence below zero, which the library would read as no loss at all.
    return np.maximum(accountant.rdp, SMALLEST_RDP)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library's warnings of low orders whose series do not converge; it leaves those out, which is safe."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def poisson_gaussian_epsilon(*, rate: float, noise_multiplier: float, steps: int, delta: float) -> float:
    """Return epsilon of the Poisson-subsampled Gaussian by Renyi DP (add or remove one record).

    `noise_multiplier` is noise std / clip norm.
    """
    return least_epsilon(
        MLP_ORDERS,
        lambda some: steps * poisson_gaussian_rdp(rate=rate, noise_multiplier=noise_multiplier, orders=some),
        delta,
    )


def least_epsilon(orders: Orders, rdp: Callable[[Orders], np.ndarray], delta: float) -> float:
    """Return `epsilon_from_rdp` at the best order, where divergences take long.

    (alpha - 1) times the bound is convex in alpha, so the bound decreases, then increases: some orders and all about
    the best of them give the least of all `orders`. Small whole ones are among the first: between them series may not
    converge.
    """

    def bounds(some: Orders) -> tuple[float, float]:
        epsilon, order = dp_accounting.rdp.compute_epsilon(some, rdp(some), delta)
        return float(epsilon), float(order)

    whole = (order for order in orders if order <= WHOLE and order == int(order))
    epsilon, best = bounds(tuple(sorted({*orders[::SPACING], *whole, orders[-1]})))
    place = orders.index(best)
    return min(epsilon, bounds(orders[max(place - 2 * SPACING, 0) : place + 2 * SPACING + 1])[0])


@lru_cache(maxsize=256)
def theorem1_rdp(
    *, num_roots: int, batch_size: int, affected_roots: int, noise_multiplier: float, orders: Orders = GNN_ORDERS
) -> np.ndarray:
    """Return the Renyi divergences of one step with a batch of fixed size: Theorem 1 of Daigavane et al. (2022).

    The batch is drawn without replacement. With rho the affected roots in the batch, gamma = ln E exp(alpha (alpha - 1)
    (rho / R)^2 / (2 lambda^2)) / (alpha - 1).

    Args:
        num_roots: N.
        batch_size: m.
        affected_roots: R = N(K, r).
        noise_multiplier: The paper's lambda: noise std / (2 C R).
        orders: alpha > 1.
    """
    affected = min(affected_roots, num_roots)
    drawn = np.arange(affected + 1)
    log_weights = hypergeom.logpmf(drawn, num_roots, affected, batch_size)
    log_weights -= logsumexp(log_weights)  # log-gamma functions of a large graph lose digits
    rows = max(1, CHUNK // len(drawn))
    parts = []
    for first in range(0, len(orders), rows):
        alpha = np.asarray(orders[first : first + rows])[:, None]
        exponents = alpha * (alpha - 1) * (drawn / affected_roots) ** 2 / (2 * noise_multiplier**2)
        # ln E exp(x) = ln(1 + E(exp(x) - 1)) keeps its digits where the noise is large and x tiny.
        with np.errstate(over="ignore", invalid="ignore"):
            small = np.log1p((np.exp(log_weights) * np.expm1(exponents)).sum(axis=1))
        large = logsumexp(log_weights + exponents, axis=1)
        parts.append(np.where(exponents.max(axis=1) < 1, small, large) / (alpha[:, 0] - 1))
    return np.maximum(np.concatenate(parts), SMALLEST_RDP)


def theorem1_epsilon(
    *, steps: int, delta: float, orders: Orders = GNN_ORDERS, conversion: Conversion = "improved", **step: Any
) -> float:
    """Return epsilon of Theorem 1 of Daigavane et al. (2022), `step` as in `theorem1_rdp`.

    Defaults as the released code: orders 1.1 to 9.9, improved conversion.
    """
    return epsilon_from_rdp(orders, steps * theorem1_rdp(orders=orders, **step), delta, conversion)


def theorem1_least_epsilon(*, steps: int, delta: float, **step: Any) -> float:
    """Return epsilon of Theorem 1 of Daigavane et al. (2022) at the best real order, improved conversion.

    Every order bounds epsilon, so the least bound does.
    """
    orders: Orders = REAL_ORDERS
    epsilon = math.inf
    for _ in range(3):
        bound, best = dp_accounting.rdp.compute_epsilon(orders, steps * theorem1_rdp(orders=orders, **step), delta)
        epsilon = min(epsilon, float(bound))
        place = orders.index(best)
        low, high = orders[max(place - 1, 0)], orders[min(place + 1, len(orders) - 1)]
        orders = tuple((1 + np.geomspace(low - 1, high - 1, 40)).tolist())
    return epsilon
