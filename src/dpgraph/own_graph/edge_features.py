"""Columns of features that are made from edges: what a release assumes of them, and a test that finds degrees.

No theorem covers a feature that changes with an edge or with another node's record
(docs/privacy/trees.md#poisson-batches and docs/privacy/votes.md#conditions-and-what-holds-them). The test reads private
data. It may only refuse, on the curator's screen: no setting, no card and no release reads it.
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
FEW_NODES = 50  # with fewer, honest columns reach that score by chance
LEAST_VARIED = 0.1  # share of nodes whose degree is not the most frequent one, below which any column tells them apart
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
    if own.list_columns:
        texts.append(f"these columns are made from the own list alone: {', '.join(own.list_columns)} (--list-column)")
    return texts


def edge_premises(relation: Relation) -> list[str]:
    """Return what the guarantee assumes of edges: a record that goes may change no edge of other nodes."""
    if relation is Relation.EDGE:
        return []
    return ["no edge between other nodes is made from a node's record: no nearest neighbours, no similarity"]


def check_edge_features(own: OwnGraph, relation: Relation) -> None:
    """Raise UserError for a column that nearly determines a degree and is not said to be public.

    Under node-null the own list is part of the record, so only lists of others count.
    """
    for option, names in (("--public-column", own.public_columns), ("--list-column", own.list_columns)):
        for name in names:
            if name not in own.names:
                raise invalid(option, name, f"one of {', '.join(own.names)}")
    if own.list_columns and relation is not Relation.NODE_NULL:
        raise invalid("--list-column", own.list_columns[0], f"none under {relation}, which protects no such feature")
    _check(own, relation, own.public_columns, f"--relation {relation} protects no feature that is made from edges", "")


def check_edges_beside(own: OwnGraph) -> None:
    """Raise UserError where an edge's epsilon would be stated beside a record's, and a column tells a degree."""
    if not edges_are_features(own):
        why = "the epsilon of an edge, which is stated beside that of a record, covers no such feature"
        how = "or say that it is made from the own list alone, and no epsilon of an edge is stated: --list-column"
        _check(own, Relation.EDGE, own.public_columns, why, how, LEAST_VARIED)


def _check(own: OwnGraph, relation: Relation, known: tuple[str, ...], why: str, how: str, varied: float = 0.0) -> None:
    """Raise UserError for a column that is not `known` and tells a degree."""
    if own.features is None:
        return
    for name in own.names:
        if COMPUTED.fullmatch(name) and name not in known:
            raise UserError(
                f"column {shown(name)}: its name says that it is computed from edges, and --relation {relation} "
                "protects no such feature: leave it out (--ignore), or confirm that it is public: "
                f"--public-column {name!r}"
            )
    scores = degree_scores(own, relation, varied)
    scores[[own.names.index(name) for name in known]] = 0
    worst = int(scores.argmax())
    if scores[worst] >= MOST_HONEST:
        name = own.names[worst]
        raise UserError(
            f"column {name}: it nearly determines a node's number of edges (score {scores[worst]:.3f}, refused from "
            f"{MOST_HONEST:g}), and {why}: leave it out (--ignore), or confirm that it is public: --public-column "
            f"{name!r}{how and f', {how} {name!r}'}"
        )


def edges_are_features(own: OwnGraph) -> bool:
    """Return whether no epsilon of an edge is stated beside a record's, by public facts: the table has no features, or
    columns that are made from lists, or so few nodes that no test finds them."""
    return own.features is None or bool(own.list_columns) or len(own.ids) < FEW_NODES


def degree_scores(own: OwnGraph, relation: Relation, varied: float = 0.0) -> np.ndarray:
    """Return for each column how nearly it determines a degree, from 0 to 1 (`_scores`), the largest over all degrees.

    Degrees count rows of the edge table, or distinct neighbours, in either direction or in both. Those are left out
    that are the same for more than 1 - `varied` of the nodes.
    """
    size = len(own.ids)
    chosen = np.unique(np.linspace(0, size - 1, min(size, MOST_NODES)).astype(np.int64))
    features = own.features if own.features is not None else np.zeros((size, 0), dtype=np.float32)
    degrees = [counts[chosen] for counts in _degrees(own, relation)]
    degrees = [counts for counts in degrees if np.bincount(counts).max() <= (1 - varied) * len(counts)]
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
