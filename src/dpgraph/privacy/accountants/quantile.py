"""Clip norm chosen privately: the exponential mechanism on a public grid, at the cost eps_quantile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from dpgraph.errors import invalid


@dataclass(frozen=True)
class PureDp:
    """The dominating pair of any epsilon-DP mechanism: randomised response."""

    epsilon: float

    def loss_std(self) -> float:
        return float(self.epsilon / np.cosh(self.epsilon / 2))

    def largest_loss(self, tail_mass: float) -> float:
        return self.epsilon

    def distribution(self, *, discretization: float, tail_mass: float) -> PrivacyLossDistribution:
        return privacy_loss_distribution.from_privacy_parameters(
            DifferentialPrivacyParameters(self.epsilon), value_discretization_interval=discretization
        )

    def rdp(self, orders: Sequence[float]) -> np.ndarray:
        """Renyi divergences at `orders` (> 1)."""
        order = np.asarray(orders)
        log_yes, log_no = -np.logaddexp(0, -self.epsilon), -np.logaddexp(0, self.epsilon)
        tilt = (order - 1) * self.epsilon  # ln of the likelihood ratio to the power of order - 1
        return np.logaddexp(log_yes + tilt, log_no - tilt) / (order - 1)


def private_quantile(
    norms: np.ndarray,
    grid: np.ndarray,
    *,
    share: float,
    num_roots: int,
    affected_roots: int,
    eps_quantile: float,
    generator: np.random.Generator,
) -> float:
    """A point c of the public `grid` (ascending) with about `share` * `num_roots` of the `norms` at most c.

    Exponential mechanism with utility -|#{norm <= c} - share N|. N is public and a record changes at most R =
    `affected_roots` norms, so the utility has sensitivity R and P(c) ~ exp(eps utility / (2 R)) is eps_quantile-DP.
    Norms that are not finite count as above every c.
    """
    grid = np.asarray(grid, dtype=float)
    if grid.ndim != 1 or not len(grid) or np.any(np.diff(grid) <= 0) or not np.all(np.isfinite(grid)) or grid[0] <= 0:
        raise invalid("grid", f"{grid[:3].tolist()}...", "ascending finite numbers > 0")
    if not 0 < share < 1:
        raise invalid("share", share, "a number in (0, 1)")
    if affected_roots < 1:
        raise invalid("affected_roots", affected_roots, "an integer >= 1")
    if not 0 < eps_quantile < np.inf:
        raise invalid("eps_quantile", eps_quantile, "a finite number > 0")
    finite = np.sort(np.where(np.isfinite(norms), norms, np.inf))
    utility = -np.abs(np.searchsorted(finite, grid, side="right") - share * num_roots)
    return float(grid[np.argmax(eps_quantile * utility / (2 * affected_roots) + generator.gumbel(size=len(grid)))])
