"""Class- and subclass-level DP-SGD (Zhang 2021, chapter 4); q is the rate at which classes enter a batch."""

from __future__ import annotations

import math


def theorem5_epsilon(*, rate: float, noise_multiplier: float, steps: int, delta: float) -> float:
    """Theorem 5, bounded DP: 4 q sqrt(T ln(1/delta)) / sigma. Its own condition is q < 1 / (16 sigma)."""
    return 4 * rate * math.sqrt(steps * math.log(1 / delta)) / noise_multiplier
