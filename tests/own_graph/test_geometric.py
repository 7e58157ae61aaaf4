"""A graph as `Data` of PyTorch Geometric, and what is read back."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import is_undirected

import dpgraph
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.adjacency import symmetric_csr, transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES, TEST
from dpgraph.data.store import load_graph, save_graph
from dpgraph.own_graph.objects import own_graph

CLASSES = 3
LISTS = ("out_ptr", "out_idx", "in_ptr", "in_idx")


def made(seed: int, directed: bool = False) -> Graph:
    random = numpy_generator("test", "geometric", seed)
    size = int(random.integers(4, 12))
    out = symmetric_csr(*random.integers(0, size, (2, 3 * size)), size)
    if directed:  # the first half of the nodes keeps its lists
        ptr = np.minimum(out[0], out[0][size // 2])
        out = ptr, out[1][: ptr[-1]]
    back = transpose(*out) if directed else out
    labels = random.integers(-1, CLASSES, size)
    labels[:CLASSES] = np.arange(CLASSES)
    return Graph(
        name="toy", out_ptr=out[0], out_idx=out[1], in_ptr=back[0], in_idx=back[1], labels=labels, num_classes=CLASSES,
        features=random.normal(size=(size, 5)).astype(np.float32),
        split=random.choice(np.array([*SPLIT_NAMES.values(), NO_SPLIT], dtype=np.uint8), size),
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), directed=st.booleans())
def test_a_graph_comes_back_as_it_was(seed, directed):
    graph = made(seed, directed)
    data = dpgraph.to_pyg(graph)
    assert data.validate()
    assert data.is_sorted()
    assert is_undirected(data.edge_index) or directed
    for name, value in SPLIT_NAMES.items():
        assert np.array_equal(data[f"{name}_mask"], graph.split == value)
    back = own_graph(data, directed=directed, classes=[str(one) for one in range(CLASSES)]).graph()
    for name in (*LISTS, "features", "labels"):
        assert np.array_equal(getattr(back, name), getattr(graph, name)), name
    if (graph.split == 0).any():  # who is in no mask is held out
        assert np.array_equal(back.split, np.where(graph.split == NO_SPLIT, TEST, graph.split))


def test_a_stored_graph_is_loaded_and_copied(tmp_path):
    graph = made(1)
    save_graph(graph, tmp_path)
    data = dpgraph.to_pyg(tmp_path)
    assert torch.equal(data.x, torch.from_numpy(graph.features))
    data.x.zero_()
    assert np.array_equal(load_graph(tmp_path).features, graph.features)
    assert dpgraph.to_pyg(str(tmp_path)).num_edges == graph.num_edges
    with pytest.raises(UserError, match=r"graph\.json: no such file"):
        dpgraph.to_pyg(tmp_path / "none")
