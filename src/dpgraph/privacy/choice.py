"""A yes or no by a noisy count: the Laplace mechanism, of which nothing but the sign is released."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.errors import invalid


def noisily_positive(*, count: float, sensitivity: float, epsilon: float, generator: np.random.Generator) -> bool:
    """Whether `count` + Laplace(sensitivity / epsilon) > 0.

    Guarantee: (epsilon, 0)-DP if one record changes `count` by at most `sensitivity`, a public number. Sampled in
    floating point, without protection against attacks on it.
    """
    if not 0 < sensitivity < math.inf:
        raise invalid("sensitivity", sensitivity, "a finite number > 0")
    if not 0 < epsilon < math.inf:
        raise invalid("choice_epsilon", epsilon, "a finite number > 0")
    return bool(count + generator.laplace(scale=sensitivity / epsilon) > 0)
