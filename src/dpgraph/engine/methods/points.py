"""Points at which a run is evaluated, and the training nodes that have a loss."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.sampling.batches import nodes_in_use
from dpgraph.privacy.public_numbers import nodes_with_loss


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


def used_nodes(job: Job) -> np.ndarray:
    """Training nodes that have a loss, ascending."""
    graph = job.graph
    count = nodes_with_loss(num_train=len(graph.train_nodes), train_share=job.cell.training.train_share)
    return nodes_in_use(graph.train_nodes, graph.num_nodes, count, numpy_generator(*job.names("training share")))
