"""Metrics of relation prediction: how early the true tail stands among the tails of a batch (Huang et al., section 5).

Tuples of a part are put into batches of 256 in a public random order, as in the paper's code; a head is compared with
all tails of its batch. A full ranking over all entities comes with the paper's own experiments.
"""

from __future__ import annotations

import numpy as np

from dpgraph.experiments.record import Metric
from dpgraph.problems.relations.value import Relations
from dpgraph.randomness import numpy_generator

BATCH = 256


def ranks(relations: Relations, states: np.ndarray, part: str) -> np.ndarray:
    """(m,) rank of the true tail of every tuple of a part, 1 the best; scores are inner products of (N, d) states.

    Ties count against the method, and so do scores that are not numbers; entities equal to the true tail do not count.
    """
    tuples = relations.tuples_of(part)
    order = numpy_generator("relations", relations.name, part).permutation(len(tuples))
    placed = np.empty(len(tuples), dtype=np.int64)
    for start in range(0, len(tuples), BATCH):
        chosen = order[start : start + BATCH]
        heads, tails = tuples[chosen].T
        scores = states[heads].astype(np.float64) @ states[tails].astype(np.float64).T
        own = np.diagonal(scores)[:, None]
        # a comparison with nan is False: what is not smaller counts
        others = ~(scores < own) & (tails[None, :] != tails[:, None])
        placed[chosen] = 1 + others.sum(axis=1)
    return placed


def evaluate(relations: Relations, states: np.ndarray, step: int, final: bool) -> list[Metric]:
    """PREC@1 and the mean reciprocal rank on every part that has tuples."""
    metrics = []
    for part in ("train", "val", "test"):
        placed = ranks(relations, states, part)
        if len(placed):
            values = {"prec_at_1": (placed == 1).mean(), "mrr": (1 / placed).mean()}
            metrics += [
                Metric(step=step, final=final, metric=f"{name}/{part}", value=float(value))
                for name, value in values.items()
            ]
    return metrics
