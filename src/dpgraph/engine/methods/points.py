"""When a run is evaluated."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.engine.methods.base import Job, Observe, Outcome


def evaluation_steps(evaluations: int, steps: int) -> set[int]:
    """`evaluations` steps at equal distances, the last of all `steps` among them.

    >>> sorted(evaluation_steps(3, 10))
    [4, 7, 10]
    """
    return {math.ceil(steps * (point + 1) / evaluations) for point in range(evaluations)}


def constant_outcome(job: Job, observe: Observe, logits: np.ndarray) -> Outcome:
    """Predictions that no step changes, seen at every evaluation point."""
    steps = job.calibration.statement.steps
    points = sorted(evaluation_steps(job.cell.training.evaluations, steps))
    return Outcome(
        logits=logits,
        observations=[observe(step, logits) for step in points],
        steps_per_second=0.0,
        peak_memory_bytes=0,
    )
