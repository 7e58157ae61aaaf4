"""When a run is evaluated."""

from __future__ import annotations

import math


def evaluation_steps(evaluations: int, steps: int) -> set[int]:
    """`evaluations` steps at equal distances, the last of all `steps` among them.

    >>> sorted(evaluation_steps(3, 10))
    [4, 7, 10]
    """
    return {math.ceil(steps * (point + 1) / evaluations) for point in range(evaluations)}
