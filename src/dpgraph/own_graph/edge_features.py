"""Columns of features that are made from edges: what a release assumes of them, and a test that finds degrees.

No theorem covers a feature that changes with an edge or with another node's record
(docs/privacy/trees.md#poisson-batches and docs/privacy/votes.md#conditions-and-what-holds-them). The test reads private
data. It refuses, on the curator's screen, or leaves an edge's epsilon out of what is stated beside that of a record: a
card says that neither is covered. No setting and no other part of a release reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from dpgraph.core.errors import UserError, invalid, shown
from dpgraph.own_graph.graph import OwnGraph
from dpgraph.privacy.relation import Relation

MOST_HONEST = 0.7  # score from which a column is refused (docs/reference/own-graph.md has measured ones)
MOST_NODES = 5_000  # that the test looks at, evenly spaced
# what Gephi, NetworkX and igraph call columns that they compute from edges
COMPUTED = re.compile(
    r"(.*[ _-])?(page[ _-]?ranks?|betweenness|closeness|clustering|coreness|core[ _-]number)([ _-]\w+)?|.*centrality|"
    r"modularity[ _-]class|component(number|[ _-]id)|strongcompnum|triangles",
    re.IGNORECASE,
)
BLOCK = 4_000_000  # numbers whose ranks are in memory at a time

PREMISES = {
    Relation.NODE_NULL: "no feature of a node is made from other nodes' records or lists: no mean over neighbours, no "
    "number of nodes that point to it, no rank and no z-score over all nodes",
    Relation.NODE_REMOVE: "no feature is made from edges or from other nodes' records: no degree, no mean over "
    "neighbours, no rank and no z-score over all nodes",
    Relation.EDGE: "no feature is made from edges: no degree, no centrality, no mean over neighbours",
}


def feature_premises(own: OwnGraph, relation: Relation, beside: Iterable[Relation] = ()) -> list[str]:
    """Return what the guarantee assumes of features, in words, and what those under other relations assume."""
    if own.features is None:
        return []
    texts = [f"{PREMISES[relation]}; what is made so has no epsilon"]
    others: dict[str, list[str]] = {}
    for one in beside:
        others.setdefault(PREMISES.get(one, PREMISES[Relation.NODE_NULL]), []).append(str(one))
    texts += [f"for the epsilon under {' and '.join(of)}: {premise}" for premise, of in others.items()
              if premise != PREMISES[relation]]  # fmt: skip
    if own.public_columns:
        named = ", ".join(own.public_columns)
        texts.append(f"these columns are public, the same whichever edges or records are missing: {named} "
                     "(--public-column)")  # fmt: skip
    return texts


def check_edge_features(own: OwnGraph, relation: Relation) -> None:
    """Raise UserError for a column that nearly determines a degree and is not said to be public."""
    for name in own.public_columns:
        if name not in own.names:
            raise invalid("--public-column", name, f"one of {', '.join(own.names)}")
    if own.features is None:
        return
    for name in own.names:
        if COMPUTED.fullmatch(name) and name not in own.public_columns:
            raise UserError(
                f"column {shown(name)}: its name says that it is computed from edges, and --relation {relation} "
                "protects no such feature: leave it out (--ignore), or confirm that it is public: "
                f"--public-column {name!r}"
            )
    scores = degree_scores(own, relation)
    scores[[own.names.index(name) for name in own.public_columns]] = 0
    worst = int(scores.argmax())
    if scores[worst] >= MOST_HONEST:
        name = own.names[worst]
        raise UserError(
            f"column {name}: it nearly determines a node's number of edges (score {scores[worst]:.3f}, refused from "
            f"{MOST_HONEST:g}), and --relation {relation} protects no feature that is made from edges: leave it out "
            f"(--ignore), or confirm that it is public: --public-column {name!r}"
        )


def edges_are_features(own: OwnGraph) -> bool:
    """Return whether an edge is a feature, too: the table has none, or a column that `--relation edge` refuses."""
    if own.features is None:
        return True
    try:
        check_edge_features(own, Relation.EDGE)
    except UserError:
        return True
    return False


def degree_scores(own: OwnGraph, relation: Relation) -> np.ndarray:
    """Return for each column how nearly it determines a degree, from 0 to 1 (`_scores`), the largest over all degrees.

    Degrees count rows of the edge table, or distinct neighbours, in either direction or in both.
    """
    size = len(own.ids)
    chosen = np.unique(np.linspace(0, size - 1, min(size, MOST_NODES)).astype(np.int64))
    features = own.features if own.features is not None else np.zeros((size, 0), dtype=np.float32)
    degrees = [counts[chosen] for counts in _degrees(own, relation)]
    found = np.zeros(features.shape[1])
    width = max(1, BLOCK // len(chosen))
    for start in range(0, features.shape[1], width):
        ranks = rankdata(features[chosen, start : start + width], axis=0)
        for counts in degrees:
            found[start : start + width] = np.maximum(found[start : start + width], _scores(ranks, counts))
    return found


def _degrees(own: OwnGraph, relation: Relation) -> list[np.ndarray]:
    """Return (N,) counts, each once. Under node-null a node's own list is its own record: others' lists alone count."""
    size, graph = len(own.ids), own.graph()
    received = [np.bincount(own.target, minlength=size), np.diff(graph.in_ptr)]
    if relation is Relation.NODE_NULL:
        every = received if own.directed else []
    else:
        sent = [np.bincount(own.source, minlength=size), np.diff(graph.out_ptr)]
        both = np.unique(np.minimum(own.source, own.target) * size + np.maximum(own.source, own.target))
        both = both[both // size != both % size]
        joined = np.bincount(both // size, minlength=size) + np.bincount(both % size, minlength=size)
        every = [*received, *sent, joined, received[0] + sent[0]]
    return list({counts.astype(np.int64).tobytes(): counts for counts in every}.values())


def _scores(ranks: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return (F,) scores of columns, given by their `ranks` (n, F), for degrees `counts` (n,): the larger one of

    - Spearman's rank correlation, of a column that tells as many nodes apart as degrees do over the largest one that
      any order of it has: 1 for every increasing or decreasing function, and for a column of which the degree is one;
    - the root of the share of the ranks' variance that nodes of equal degree explain to each other, each left out in
      turn: 1 for every function of the degree, such as one column of a one-hot code.
    """
    of_degrees = rankdata(counts)
    centred, against = ranks - ranks.mean(axis=0), of_degrees - of_degrees.mean()
    squares, square = (centred**2).sum(axis=0), (against**2).sum()
    if not square:
        return np.zeros(ranks.shape[1])
    covariance, ordered, rising = against @ centred, np.sort(against), np.sort(centred, axis=0)
    most = np.where(covariance > 0, ordered @ rising, -(ordered[::-1] @ rising))  # of this sign
    most = np.where(squares >= square * (1 - 1e-9), most, np.sqrt(squares * square))
    monotone = np.abs(covariance) / np.where(most > 0, most, np.inf)
    _, group, sizes = np.unique(counts, return_inverse=True, return_counts=True)
    members = sp.csr_matrix((np.ones(len(group)), (group, np.arange(len(group)))))
    share = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)[group][:, None]
    left = centred - (members @ centred / sizes[:, None])[group]
    alone = (sizes == 1)[group]
    residual = ((share * left) ** 2).sum(axis=0) + (centred[alone] ** 2).sum(axis=0)
    explained = 1 - residual / np.where(squares > 0, squares, 1)
    return np.maximum(monotone, np.sqrt(np.where(squares > 0, np.clip(explained, 0, 1), 0)))
