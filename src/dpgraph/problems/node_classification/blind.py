"""What methods may see of a graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpgraph.data.graph import Graph
from dpgraph.problems.classification import hidden_labels


def blind(graph: Graph) -> Graph:
    """The graph as methods see it: labels of nodes outside training and validation are -1."""
    return replace(graph, labels=hidden_labels(graph))


def counts_only(graph: Graph) -> Graph:
    """What a method sees whose epsilon is 0: how many nodes and classes there are, and the split; no record."""
    ptr = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    return replace(
        graph,
        out_ptr=ptr,
        out_idx=none,
        in_ptr=ptr,
        in_idx=none,
        features=np.zeros((graph.num_nodes, 0), dtype=np.float32),
        labels=np.full(graph.num_nodes, -1, dtype=np.int64),
        meta={},
    )
