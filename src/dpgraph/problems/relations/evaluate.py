"""Metrics of relation prediction: the rank of the true tail among other tails (Huang et al., section 5).

Ranks are taken twice: among the tails of a batch of 256 tuples in a public random order, as the paper's code does, and
among all entities of the graph that is tested. After the last step, also in the first way for the tuples of rare tails
alone, those of at most the median degree.
"""

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.core.randomness import numpy_generator
from dpgraph.problems.relations.value import Relations

BATCH = 256


def ranks(relations: Relations, states: np.ndarray, part: str) -> np.ndarray:
    """Return (m,) the rank of the true tail of every tuple of a part in its batch; 1 is the best.

    Scores are inner products of `states`: (N, d), or (N, 2, d) with one state as a head and one as a tail. Ties count
    against the method, and so do scores that are not numbers; entities equal to the true tail do not count.
    """
    tuples = relations.tuples_of(part)
    order = numpy_generator("relations", relations.name, part).permutation(len(tuples))
    placed = np.empty(len(tuples), dtype=np.int64)
    for start in range(0, len(tuples), BATCH):
        chosen = order[start : start + BATCH]
        heads, tails = tuples[chosen].T
        placed[chosen] = _placed(states, heads, tails, tails, tails[:, None])
    return placed


def full_ranks(relations: Relations, states: np.ndarray, part: str) -> np.ndarray:
    """Return (m,) the same ranks among all entities of the part's graph but the head itself."""
    tuples, candidates = relations.tuples_of(part), relations.candidates(part)
    placed = np.empty(len(tuples), dtype=np.int64)
    for start in range(0, len(tuples), BATCH):
        heads, tails = tuples[start : start + BATCH].T
        left_out = np.stack([tails, heads], axis=1)
        placed[start : start + BATCH] = _placed(states, heads, tails, candidates, left_out)
    return placed


def rare_tails(relations: Relations, part: str) -> np.ndarray:
    """Return an (m,) mask of tuples whose tail is in at most as many tuples of the part as the median tuple's tail."""
    tuples = relations.tuples_of(part)
    degrees = np.bincount(tuples.ravel(), minlength=relations.num_entities)[tuples[:, 1]]
    return np.asarray(degrees <= np.median(degrees))


def _placed(
    states: np.ndarray, heads: np.ndarray, tails: np.ndarray, candidates: np.ndarray, left_out: np.ndarray
) -> np.ndarray:
    """Return (b,) ranks of `tails` (b,) among `candidates` (c,), without those of each row of `left_out` (b, x)."""
    as_head, as_tail = (states[:, 0], states[:, 1]) if states.ndim == 3 else (states, states)
    left, right = as_head[heads].astype(np.float64), as_tail.astype(np.float64, copy=False)
    own = np.einsum("bd,bd->b", left, right[tails])[:, None]
    scores = left @ right[candidates].T
    # products of one pair may be rounded in two ways; a comparison with nan is False: all that is not smaller counts
    tolerance = 1e-9 * np.abs(own)
    others = ~(scores < own - tolerance)
    for column in left_out.T:
        others &= candidates != column[:, None]
    return np.asarray(1 + others.sum(axis=1))


def evaluate(relations: Relations, states: np.ndarray, step: int, final: bool) -> list[Metric]:
    """Return PREC@1 and the mean reciprocal rank on every part that has tuples.

    After the last step, also of full ranks, and of the tuples with a rare tail.
    """
    metrics = []
    for part in ("train", "val", "test"):
        placed = {"": ranks(relations, states, part)}
        if not len(placed[""]):
            continue
        if final and part == "test":
            placed["_full"] = full_ranks(relations, states, part)
            placed["_rare"] = placed[""][rare_tails(relations, part)]
        for kind, found in placed.items():
            values = {"prec_at_1": (found == 1).mean(), "mrr": (1 / found).mean()}
            metrics += [
                Metric(step=step, final=final, metric=f"{name}{kind}/{part}", value=float(value))
                for name, value in values.items()
            ]
    return metrics
