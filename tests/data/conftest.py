"""Graphs written by hand."""

import numpy as np
import pytest

from dpgraph.data.adjacency import symmetric_csr
from dpgraph.data.graph import Graph


@pytest.fixture(scope="session")
def graph_of():
    """Function from undirected edges, splits and labels to a graph."""

    def make(edges, split, labels=None):
        nodes = len(split)
        source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        ptr, idx = symmetric_csr(source, target, nodes)
        return Graph(
            name="toy",
            out_ptr=ptr,
            out_idx=idx,
            in_ptr=ptr,
            in_idx=idx,
            features=np.zeros((nodes, 2), dtype=np.float32),
            labels=np.zeros(nodes, dtype=np.int64) if labels is None else np.array(labels),
            split=np.array(split, dtype=np.uint8),
            num_classes=2,
        )

    return make
