"""Membership of images, by their losses (Yeom et al. 2018): how well losses tell training images from tested ones."""

from __future__ import annotations

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.problems.images.value import Images

MEMBERSHIP = "membership_auc/train"


def membership_metrics(value: Images, scores: np.ndarray, step: int) -> list[Metric]:
    """Area under the curve of the attack that calls images of small cross-entropy members; 1/2: losses tell nothing.

    `scores` are (N, classes) logits; infinite and missing losses count as the largest. Compares with private images and
    their split: a number for who has these, and no part of a release. It bounds the epsilon of one image from below, in
    the mean over images, and says nothing of classes. None without labelled images on both sides.
    """
    from scipy.stats import rankdata  # takes half a second, which other stages need not wait for

    labels, test = np.asarray(value.labels), value.nodes_of("test")
    members, others = (nodes[labels[nodes] >= 0] for nodes in (value.train_nodes, test))
    if not len(members) or not len(others):
        return []
    nodes = np.concatenate([members, others])
    ranks = rankdata(losses(scores[nodes], labels[nodes]))
    below = len(others) * len(members) + len(members) * (len(members) + 1) / 2 - ranks[: len(members)].sum()
    return [Metric(step=step, final=True, metric=MEMBERSHIP, value=float(below / (len(members) * len(others))))]


def losses(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) cross-entropies of logits (n, classes)."""
    logits = np.asarray(scores, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        top = logits.max(axis=1, keepdims=True)
        whole = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
        found = whole - logits[np.arange(len(labels)), labels]
    return np.nan_to_num(found, nan=np.inf, posinf=np.inf)
