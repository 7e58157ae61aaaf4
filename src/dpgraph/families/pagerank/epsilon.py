"""DP-APPR: private approximate personalised PageRank vectors of M nodes (Zhang 2021, chapter 5)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, epsilon_from_rdp


def _composed_rows(row_epsilon: float, rows: int, row_delta: float) -> float:
    """Solve eps_row = eps_g / (2 sqrt(M ln(e + eps_g / (2 M delta)))) for eps_g, which increases with eps_row."""
    scale = math.log(2 * rows) + math.log(row_delta)  # quotients by a tiny delta overflow

    def gap(epsilon: float) -> float:
        share = -math.inf if epsilon == 0 else math.log(epsilon) - scale
        return epsilon - 2 * row_epsilon * math.sqrt(rows * float(np.logaddexp(1, share)))

    high = max(1.0, row_epsilon)
    while gap(high) < 0:
        high *= 2
    return float(brentq(gap, 0.0, high, xtol=1e-12, rtol=1e-14))


def theorem6_epsilon(*, rows: int, noise: float, row_delta: float) -> float:
    """Return the total epsilon of Theorem 6 (Gaussian rows), at delta 2 M row_delta; noise = std / C1 of every row."""
    return _composed_rows(math.sqrt(2 * (math.log(1.25) - math.log(row_delta))) / noise, rows, row_delta)


def theorem7_epsilon(
    *, rows: int, top_k: int, eps_gumbel: float, row_delta: float, eps_laplace: float | None = None
) -> float:
    """Return the total epsilon of Theorem 7 (exponential mechanism), at delta 2 M row_delta.

    Gumbel noise has scale C2 / eps_gumbel; option 2 adds Laplace noise of scale K C2 / eps_laplace. The thesis prints
    eps^(2 eps) where e^(2 eps) is meant.
    """
    return _composed_rows(_row_epsilon(top_k, eps_gumbel, row_delta) + (eps_laplace or 0.0), rows, row_delta)


def _row_epsilon(top_k: int, eps_gumbel: float, row_delta: float) -> float:
    """Return epsilon_1 of Theorem 7 (Corollary 3): the K draws of one row."""
    tanh = math.tanh(eps_gumbel)  # (e^(2 eps) - 1) / (e^(2 eps) + 1)
    pure = top_k * eps_gumbel
    return 2 * min(pure, pure * tanh + eps_gumbel * math.sqrt(-2 * top_k * math.log(row_delta)))


def exponential_zcdp(*, rows: int, top_k: int, eps_gumbel: float, eps_laplace: float | None = None) -> float:
    """Return rho of the release of M rows by the exponential mechanism.

    A draw has bounded range 2 eps, so it is eps^2/2-zCDP; Laplace noise adds eps^2/2 a row.
    """
    return rows * (top_k * eps_gumbel**2 / 2 + (eps_laplace or 0.0) ** 2 / 2)


def exponential_epsilon(
    *, rows: int, top_k: int, eps_gumbel: float, delta: float, eps_laplace: float | None = None
) -> float:
    """Return the proved epsilon of the release: that of its `exponential_zcdp`."""
    rho = exponential_zcdp(rows=rows, top_k=top_k, eps_gumbel=eps_gumbel, eps_laplace=eps_laplace)
    return epsilon_from_rdp(WIDE_ORDERS, rho * np.asarray(WIDE_ORDERS), delta)


def release_noise(
    release: str, *, epsilon: float, rows: int, top_k: int, delta: float, published: bool
) -> tuple[float, float | None]:
    """Solve for the noise with which the release of the rows alone costs `epsilon` at `delta`.

    The thesis does not state how the share of the values is chosen. Here it is half of the row's epsilon (published) or
    of rho (rigorous).

    Returns:
        For `gaussian`: noise std / C1, and None. For `exponential`: epsilon of the Gumbel noise, and None. For
        `exponential-values`: epsilon of the Gumbel noise, and of the values.
    """
    row_delta = delta / (2 * rows)
    if release == "gaussian":
        if published:
            return _root(
                lambda noise: theorem6_epsilon(rows=rows, noise=noise, row_delta=row_delta), epsilon, falling=True
            ), None
        return _root(
            lambda noise: gaussian_epsilon(mu=math.sqrt(2 * rows) / noise, delta=delta), epsilon, falling=True
        ), None
    values = release == "exponential-values"
    if not published:
        gumbel = _root(
            lambda eps: exponential_epsilon(
                rows=rows,
                top_k=top_k,
                eps_gumbel=eps,
                delta=delta,
                eps_laplace=eps * math.sqrt(top_k) if values else None,
            ),
            epsilon,
        )
        return gumbel, gumbel * math.sqrt(top_k) if values else None

    def cost(gumbel: float) -> float:
        row = _row_epsilon(top_k, gumbel, row_delta)
        return theorem7_epsilon(
            rows=rows, top_k=top_k, eps_gumbel=gumbel, row_delta=row_delta, eps_laplace=row if values else None
        )

    gumbel = _root(cost, epsilon)
    return gumbel, _row_epsilon(top_k, gumbel, row_delta) if values else None


def _root(cost: Callable[[float], float], epsilon: float, falling: bool = False) -> float:
    """Return the argument whose cost is `epsilon` or hardly less, searched over 1e-12 to 1e12 in powers of e."""

    def gap(log: float) -> float:
        return math.log(max(cost(math.exp(log)), 1e-300)) - math.log(epsilon)

    exponent = float(brentq(gap, -28.0, 28.0, xtol=1e-10, rtol=1e-12))
    return math.exp(exponent + (1e-9 if falling else -1e-9))
