"""Compressed sparse rows (CSR) of a graph's lists: built, transposed, filtered and counted; no loop over nodes.

`apply_setting` keeps the edges that training and inference may see. `statistics` counts what data set tables print
(Daigavane et al., Table 7; Igamberdiev & Habernal, Table 1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import invalid
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES

Csr = tuple[np.ndarray, np.ndarray]  # ptr (N + 1,) int64, idx (E,) int32


def symmetric_csr(source: np.ndarray, target: np.ndarray, num_nodes: int) -> Csr:
    """Return both directions of every edge; no self-loops, no duplicates, ids ascending within a list."""
    keep = source != target
    source, target = source[keep], target[keep]
    matrix = sp.coo_matrix((np.ones(len(source), dtype=bool), (source, target)), shape=(num_nodes, num_nodes)).tocsr()
    return _csr(matrix + matrix.T)


def transpose(ptr: np.ndarray, idx: np.ndarray) -> Csr:
    """Return the edges by the node that they point to."""
    num_nodes = len(ptr) - 1
    matrix = sp.csr_matrix((np.ones(len(idx), dtype=bool), idx, ptr), shape=(num_nodes, num_nodes))
    return _csr(matrix.T.tocsr())


def owners(ptr: np.ndarray) -> np.ndarray:
    """Return (E,) int32: the list to which each entry belongs."""
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))


def keep_entries(ptr: np.ndarray, idx: np.ndarray, keep: np.ndarray) -> Csr:
    """Return the entries where `keep` (E,) bool is true; order within a list is kept."""
    counts = np.concatenate(([0], np.cumsum(keep, dtype=np.int64)))
    return counts[ptr], idx[keep]


def undirected_adjacency(graph: Graph) -> sp.csr_matrix:
    """Return (n, n) with ones where one of two nodes lists the other; ids within a row ascend."""
    return undirected_csr(owners(graph.out_ptr), np.asarray(graph.out_idx), graph.num_nodes)


def undirected_csr(source: np.ndarray, target: np.ndarray, num_nodes: int) -> sp.csr_matrix:
    ptr, idx = symmetric_csr(source, target, num_nodes)
    return sp.csr_matrix((np.ones(len(idx)), idx, ptr), (num_nodes, num_nodes))


def _csr(matrix: sp.csr_matrix) -> Csr:
    matrix.sum_duplicates()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


def statistics(graph: Graph) -> dict[str, object]:
    """Count nodes, entries, features, classes and splits.

    `entries` are directed: an undirected edge counts twice; `mean_degree` is entries / nodes. `homophily` is the share
    of entries between labelled nodes that join equal labels, `within_split` the share of entries between nodes with a
    split that stay within one; both are None where there is no such entry.
    """
    owner = owners(graph.out_ptr)
    degree = np.diff(graph.out_ptr)
    labelled = (graph.labels[owner] >= 0) & (graph.labels[graph.out_idx] >= 0)
    same_label = graph.labels[owner] == graph.labels[graph.out_idx]
    placed = (graph.split[owner] != NO_SPLIT) & (graph.split[graph.out_idx] != NO_SPLIT)
    same_split = graph.split[owner] == graph.split[graph.out_idx]
    sizes = {name: int((graph.split == value).sum()) for name, value in SPLIT_NAMES.items()}
    return {
        "nodes": graph.num_nodes,
        "entries": graph.num_edges,
        "undirected_edges": graph.num_edges // 2,
        "mean_degree": graph.num_edges / max(graph.num_nodes, 1),
        "max_degree": int(degree.max(initial=0)),
        "isolated_nodes": int((degree == 0).sum()),
        "features": graph.num_features,
        "classes": graph.num_classes,
        "split_sizes": sizes,
        "split_fractions": {name: size / max(graph.num_nodes, 1) for name, size in sizes.items()},
        "homophily": _share(same_label & labelled, labelled),
        "entries_within_splits": int((same_split & placed).sum()),
        "within_split": _share(same_split & placed, placed),
    }


def _share(part: np.ndarray, whole: np.ndarray) -> float | None:
    count = int(whole.sum())
    return float(part.sum() / count) if count else None


SETTINGS = ("transductive", "disjoint", "clustered")


def apply_setting(graph: Graph, setting: str) -> Graph:
    """Return the graph with the edges of `setting`.

    transductive: all. disjoint, clustered: none between nodes of different splits (Daigavane et al., section 6.2);
    nodes without a split count as one more part, which keeps the edges among themselves.
    Guarantee of the last two: no path leads from a training node to a node of another split.
    """
    if setting not in SETTINGS:
        raise invalid("setting", setting, ", ".join(SETTINGS))
    if setting == "transductive":
        return graph
    out_ptr, out_idx = _within_splits(graph, graph.out_ptr, graph.out_idx)
    if graph.in_ptr is graph.out_ptr:
        in_ptr, in_idx = out_ptr, out_idx
    else:
        in_ptr, in_idx = _within_splits(graph, graph.in_ptr, graph.in_idx)
    return replace(graph, out_ptr=out_ptr, out_idx=out_idx, in_ptr=in_ptr, in_idx=in_idx)


def _within_splits(graph: Graph, ptr, idx):  # type: ignore[no-untyped-def]
    return keep_entries(ptr, idx, graph.split[owners(ptr)] == graph.split[idx])
