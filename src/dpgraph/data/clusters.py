"""Splits by agglomerative clusters, after ogbn-arxiv-clustered of Daigavane et al. (section 6.2).

The authors' assignment is behind a dead link, and neither linkage, features nor number of clusters are printed: the
split made here is a declared variant. It clusters by Ward's linkage along the graph's edges (scikit-learn).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import Csr, owners, symmetric_csr
from dpgraph.data.features import dense, project
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.records import DATA_DEPENDENT, TEST, TRAIN, VALIDATION

KEPT = Path(__file__).with_name("kept_splits")  # made once by `cluster_split`, by scikit-learn 1.9.1
MAX_DIMENSION = 64
FIRST_CUT = 10
TOLERANCE = 0.005
MAX_LEAVES = 20_000
PIECE = 1 << 18


def cluster_split(raw: RawGraph, percent: Sequence[int]) -> tuple[np.ndarray, dict[str, Any]]:
    """Return (N,) uint8 and the declaration of the variant.

    The tree is cut into 10, 20, 40, ... clusters until merging them greedily meets the ratio within half a percent of
    the nodes. Deterministic: no random draw but the keyed projection of features wider than 64. Larger graphs are
    contracted to at most 20,000 groups first, since the cost of Ward's linkage grows with the square of a hub's degree.
    """
    if raw.features is None:
        raise UserError("split=ratio: expected features to cluster by; the data set has none")
    features = dense(raw.features if raw.features.shape[1] <= MAX_DIMENSION else project(raw.features, MAX_DIMENSION))
    group, means, (ptr, idx) = contract(features, *raw.symmetric, MAX_LEAVES)
    merges = ward_merges(means, ptr, idx)
    targets = np.asarray(percent) / 100
    count = min(FIRST_CUT, len(means))
    while True:
        split = merge_to_ratio(cut(merges, len(means), count)[group], targets)
        shares = np.bincount(split, minlength=3) / raw.num_nodes
        if np.abs(shares - targets).max() <= TOLERANCE or count == len(means):
            break
        count = min(2 * count, len(means))
    return split, declaration(count, len(means))


def declaration(clusters: int, leaves: int) -> dict[str, Any]:
    """Return the declaration of a split into so many clusters of so many groups of nodes."""
    return {
        "split_variant": "Ward linkage along the edges, clusters merged greedily; the published split file is lost",
        "clusters": clusters,
        "leaves": leaves,
        DATA_DEPENDENT: ["the split: clusters of the features and edges of all nodes"],
    }


def kept_clusters(name: str, split: str, nodes: int) -> tuple[np.ndarray, dict[str, Any]] | None:
    """Return the split that is kept as a file, or None.

    Rounding breaks ties in the tree, so that another version of a library makes another split.
    Raises UserError for a graph of another size.
    """
    path = KEPT / f"{name}.{split}.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as file:
        found, clusters, leaves = file["split"], int(file["clusters"]), int(file["leaves"])
    if len(found) != nodes:
        raise UserError(f"{name}, split={split}: {nodes} nodes: expected {len(found)}, those of the kept split")
    return found, declaration(clusters, leaves)


def contract(features: np.ndarray, ptr: np.ndarray, idx: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray, Csr]:
    """Return groups of nodes, at most `limit` unless there are more components.

    In each round every group joins the adjacent group nearest in Ward's distance. Returns the group of each node (N,),
    the groups' means (M, F) and the CSR of the groups' adjacency. At or below `limit` each node is its own group.
    """
    group = np.arange(len(ptr) - 1)
    means, sizes = features, np.ones(len(group), dtype=np.float64)
    while len(means) > limit and len(idx):
        owner = owners(ptr)
        cost = ward_distance(means, sizes, owner, idx)
        rows = np.flatnonzero(np.diff(ptr))
        nearest = np.lexsort((cost, owner))[ptr[rows]]
        shape = (len(means), len(means))
        choice = sp.coo_matrix((np.ones(len(rows), dtype=np.int8), (rows, idx[nearest])), shape=shape)
        count, label = connected_components(choice, directed=False)
        total = np.bincount(label, weights=sizes, minlength=count).astype(np.float64)
        weights = sp.csr_matrix((sizes / total[label], (label, np.arange(len(label)))), shape=(count, len(label)))
        means, sizes = np.asarray(weights @ means, dtype=np.float32), total
        ptr, idx = symmetric_csr(label[owner], label[idx], count)
        group = label[group]
    return group, means, (ptr, idx)


def ward_distance(means: np.ndarray, sizes: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return (E,) increases of the sum of squares by each merge, in pieces that fit in memory."""
    pieces = [
        np.square(means[left[start : start + PIECE]] - means[right[start : start + PIECE]]).sum(axis=1)
        for start in range(0, len(left), PIECE)
    ]
    return np.concatenate(pieces) * sizes[left] * sizes[right] / (sizes[left] + sizes[right])


def ward_merges(features: np.ndarray, ptr: np.ndarray, idx: np.ndarray) -> np.ndarray:
    """Return (N - 1, 2) pairs merged, in order; numbers from N on are earlier merges.

    Components of the graph are joined first, each by one edge to the node of the largest component that is nearest to
    its first node: scikit-learn would compare all pairs of nodes.
    """
    from sklearn.cluster import ward_tree
    from sklearn.metrics import pairwise_distances_argmin

    num_nodes = len(ptr) - 1
    graph = sp.csr_matrix((np.ones(len(idx), dtype=np.int8), idx, ptr), shape=(num_nodes, num_nodes))
    components, label = connected_components(graph, directed=False)
    if components > 1:
        largest = np.bincount(label).argmax()
        inside = np.flatnonzero(label == largest)
        first = np.unique(label, return_index=True)[1]
        outside = np.delete(first, largest)
        nearest = inside[pairwise_distances_argmin(features[outside], features[inside])]
        bridges = sp.coo_matrix((np.ones(len(outside), dtype=np.int8), (outside, nearest)), shape=graph.shape)
        graph = graph + bridges + bridges.T
    return ward_tree(features, connectivity=graph)[0]


def cut(merges: np.ndarray, num_nodes: int, clusters: int) -> np.ndarray:
    """Return the cluster of each node, (N,), after all but the last `clusters` - 1 merges."""
    done = num_nodes - clusters
    size = num_nodes + done
    parents = np.repeat(np.arange(num_nodes, size), 2)
    forest = sp.coo_matrix((np.ones(2 * done, dtype=np.int8), (merges[:done].ravel(), parents)), shape=(size, size))
    return connected_components(forest, directed=False)[1][:num_nodes]


def merge_to_ratio(clusters: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Assign clusters, largest first, to the part that lacks most nodes; ties go to the earlier part. (N,) uint8."""
    sizes = np.bincount(clusters)
    missing = targets * len(clusters)
    part = np.empty(len(sizes), dtype=np.uint8)
    for cluster in np.argsort(-sizes, kind="stable"):
        choice = int(missing.argmax())
        part[cluster] = (TRAIN, VALIDATION, TEST)[choice]
        missing[choice] -= sizes[cluster]
    return part[clusters]
