"""Audit of the mean of the rows that `dp-votes` releases before it trains: its noise, a record's part, and its use.

The release is the one that is prepared for a cell. The sum and the rows that follow are worked out here a second time,
record by record, from docs/privacy.md, section 12.1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpgraph.audits.graphs import null_records
from dpgraph.audits.result import Audit, AuditResult, in_words, quantile
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.families.votes.audit import LEVEL, cases, prepared_votes
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.families.votes.rows import RowMean

FEATURES, SHARE = 40, 0.2
ROUNDED = 1e-6  # of float32 rows, and of rounding to a grid
CHANGED = (0, 1, 2)  # a long record, one with numbers that are none, one of a single feature


def rows_graph() -> Graph:
    """Counts with a common part; some records are so long that they would drown the others were they not scaled."""
    graph = cases()["fan"]
    random = numpy_generator("audits", "votes", "mean")
    features = random.poisson(3.0 / (1 + np.arange(FEATURES)), (graph.num_nodes, FEATURES)).astype(np.float32)
    features[0] *= 1e20
    features[1, 3] = np.nan
    features[2] = 7.0 * np.eye(FEATURES)[5]
    return replace(graph, features=features)


def _prepared(graph: Graph, seed: int) -> tuple[PreparedVotes, RowMean]:
    step = prepared_votes(graph, seed, degree_floor=4, mean_share=SHARE, votes_share=0.5)
    if step.mean is None:
        raise TypeError("expected a mean of the rows")
    return step, step.mean


def summed(graph: Graph) -> np.ndarray:
    """(F,) record by record."""
    total = np.zeros(FEATURES)
    for record in np.asarray(graph.features, dtype=np.float64):
        if np.isfinite(record).all() and record.any():
            total += record / np.linalg.norm(record)
    return total


def row_of(record: np.ndarray, released: np.ndarray, std: float) -> np.ndarray:
    """One record as it is read, from the release and the record alone."""
    kept = [place for place in range(FEATURES) if released[place] > std]
    direction = released[kept] / np.linalg.norm(released[kept])
    short = record[kept].astype(np.float64)
    if not np.isfinite(short).all() or not short.any():
        return np.zeros(len(kept))
    short /= np.linalg.norm(short)
    short -= (short @ direction) * direction
    return np.asarray(short / np.linalg.norm(short))


def votes_mean(trials: int) -> AuditResult:
    """`trials` releases: their noise over the accounted one; with one noise, what a record moves; and the rows."""
    broken: dict[str, float] = {}
    graph = rows_graph()
    squares = 0.0
    for seed in range(trials):
        step, mean = _prepared(graph, seed)
        # of the mechanism, and not of what ran
        accounted = next(one.noise for one in step.accounted().releases if one.kind == "mean of the rows")
        squares += float((((mean.released - summed(graph)) / accounted) ** 2).sum())
    score = quantile(squares, trials * FEATURES)
    broken |= {} if abs(score) < LEVEL else {"noise": score}
    read = step.data.features.numpy() / 10.0
    features = np.asarray(graph.features)
    for node in range(3, graph.num_nodes):
        gap = float(np.abs(read[node] - row_of(features[node], mean.released, mean.std)).max())
        broken |= {} if gap < 10 * ROUNDED else {f"row of node {node}": gap}
    for node in CHANGED:
        (_, whole), (_, less) = _prepared(graph, 0), _prepared(null_records(graph, [node]), 0)
        moved = float(np.linalg.norm(whole.released - less.released))
        broken |= {} if moved <= 1 + ROUNDED else {f"record {node} moves": moved}
    return AuditResult(
        audit="votes-mean", title="the mean of the rows, and a record's part in it",
        passed=not broken, trials=trials, curve=(),
        claim="a record moves the sum of the rows by 1 at most; noise as accounted; rows follow "
        "from the release and the own record alone",
        finding=in_words(broken),
    )  # fmt: skip


AUDITS = {
    "votes-mean": Audit(votes_mean, 200),
}
