"""Compressed sparse rows (CSR) of a graph's lists: built, transposed and filtered without a loop over nodes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dpgraph.data.graph import Graph

Csr = tuple[np.ndarray, np.ndarray]  # ptr (N + 1,) int64, idx (E,) int32


def symmetric_csr(source: np.ndarray, target: np.ndarray, num_nodes: int) -> Csr:
    """Both directions of every edge; no self-loops, no duplicates, ids ascending within a list."""
    keep = source != target
    source, target = source[keep], target[keep]
    matrix = sp.coo_matrix((np.ones(len(source), dtype=bool), (source, target)), shape=(num_nodes, num_nodes)).tocsr()
    return _csr(matrix + matrix.T)


def transpose(ptr: np.ndarray, idx: np.ndarray) -> Csr:
    """The same edges by the node pointed to."""
    num_nodes = len(ptr) - 1
    matrix = sp.csr_matrix((np.ones(len(idx), dtype=bool), idx, ptr), shape=(num_nodes, num_nodes))
    return _csr(matrix.T.tocsr())


def owners(ptr: np.ndarray) -> np.ndarray:
    """(E,) int32: the list to which each entry belongs."""
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))


def keep_entries(ptr: np.ndarray, idx: np.ndarray, keep: np.ndarray) -> Csr:
    """The entries where `keep` (E,) bool is true; order within a list is kept."""
    counts = np.concatenate(([0], np.cumsum(keep, dtype=np.int64)))
    return counts[ptr], idx[keep]


def undirected_adjacency(graph: Graph) -> sp.csr_matrix:
    """(n, n) ones where one of two nodes lists the other; ids within a row ascend."""
    return undirected_csr(owners(graph.out_ptr), np.asarray(graph.out_idx), graph.num_nodes)


def undirected_csr(source: np.ndarray, target: np.ndarray, num_nodes: int) -> sp.csr_matrix:
    ptr, idx = symmetric_csr(source, target, num_nodes)
    return sp.csr_matrix((np.ones(len(idx)), idx, ptr), (num_nodes, num_nodes))


def _csr(matrix: sp.csr_matrix) -> Csr:
    matrix.sum_duplicates()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
