"""The dominating pair of a choice by the exponential mechanism, such as that of a clip norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


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
