"""The exponential mechanism: one of several ways is chosen, the better ones with the larger probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dpgraph.core.errors import invalid


class Choice(NamedTuple):
    """A choice that was drawn, and the epsilon it was drawn with."""

    place: int  # of what was chosen
    epsilon: float


class Chooser(Protocol):
    """A source of randomness that samples the exponential mechanism without rounding."""

    def choose(self, utilities: Sequence[int], epsilon: float) -> int: ...


def bounded_choice(*, utilities: Sequence[int], epsilon: float, generator: np.random.Generator | Chooser) -> Choice:
    """Draw one of `utilities`, with probability proportional to exp(epsilon utility): exponential mechanism.

    Guarantee: (epsilon, 0)-DP if one record moves every utility by at most 1 and all of them in one direction
    (McSherry & Talwar 2007, monotone utilities); (2 epsilon, 0) if in any direction. Sampled in floating point, unless
    the generator is a `Chooser`.
    """
    if not len(utilities):
        raise invalid("utilities", "none", "at least one")
    if not 0 < epsilon < math.inf:
        raise invalid("choice_epsilon", epsilon, "a finite number > 0")
    if not isinstance(generator, np.random.Generator):
        return Choice(generator.choose(utilities, epsilon), epsilon)
    noisy = epsilon * np.asarray(utilities, dtype=float) + generator.gumbel(size=len(utilities))
    return Choice(int(np.argmax(noisy)), epsilon)
