from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import SETTINGS, apply_setting, keep_entries, owners, statistics, symmetric_csr, transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT

NODES = 6
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=30)


def as_sets(ptr, idx):
    return [list(idx[ptr[node] : ptr[node + 1]]) for node in range(len(ptr) - 1)]


@given(EDGES)
def test_symmetric_csr_against_sets(edges):
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    ptr, idx = symmetric_csr(source, target, NODES)
    neighbours = [
        sorted({v for u, v in edges if u == node} | {u for u, v in edges if v == node} - {node})
        for node in range(NODES)
    ]
    assert as_sets(ptr, idx) == [[v for v in found if v != node] for node, found in enumerate(neighbours)]
    assert ptr.dtype == np.int64
    assert idx.dtype == np.int32


@given(EDGES, st.data())
def test_transpose_and_filter_against_sets(edges, data):
    directed = sorted({(u, v) for u, v in edges if u != v})
    ptr = np.cumsum([0] + [sum(u == node for u, _ in directed) for node in range(NODES)])
    idx = np.array([v for _, v in directed], dtype=np.int32)
    assert as_sets(*transpose(ptr, idx)) == [sorted(u for u, v in directed if v == node) for node in range(NODES)]
    assert list(owners(ptr)) == [u for u, _ in directed]
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(idx), max_size=len(idx))), dtype=bool)
    kept = [edge for edge, flag in zip(directed, keep) if flag]
    assert as_sets(*keep_entries(ptr, idx, keep)) == [[v for u, v in kept if u == node] for node in range(NODES)]


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40),
    st.lists(st.sampled_from([0, 1, 2, NO_SPLIT]), min_size=8, max_size=8),
    st.sampled_from(["disjoint", "clustered"]),
    st.booleans(),
)
def test_no_edge_crosses_splits_and_all_others_stay(graph_of, edges, split, setting, directed):
    graph = graph_of(edges, split)
    if directed:  # separate arrays for the two directions
        graph = Graph(**{**graph.__dict__, "in_ptr": graph.in_ptr.copy(), "in_idx": graph.in_idx.copy()})
    cut = apply_setting(graph, setting)
    kept = set(zip(owners(cut.out_ptr).tolist(), cut.out_idx.tolist()))
    expected = {(u, v) for u, v in zip(owners(graph.out_ptr).tolist(), graph.out_idx.tolist()) if split[u] == split[v]}
    assert kept == expected
    back = transpose(cut.out_ptr, cut.out_idx)
    assert np.array_equal(cut.in_ptr, back[0])
    assert np.array_equal(cut.in_idx, back[1])
    assert (cut.in_ptr is cut.out_ptr) == (not directed)


def test_transductive_keeps_everything(graph_of):
    graph = graph_of([(0, 1), (1, 2)], [0, 1, 2])
    assert apply_setting(graph, "transductive") is graph


def test_unknown_setting(graph_of):
    with pytest.raises(UserError, match=r"^setting=inductive: expected transductive, disjoint, clustered$"):
        apply_setting(graph_of([], [0]), "inductive")


def test_names_agree_with_the_task_model():
    assert set(SETTINGS) == set(get_args(Task.model_fields["setting"].annotation))


def test_statistics_by_hand(graph_of):
    # path 0-1-2-3, node 4 alone; labels a a b none b; split train train val test -
    graph = graph_of([(0, 1), (1, 2), (2, 3)], [0, 0, 1, 2, NO_SPLIT], labels=[0, 0, 1, -1, 1])
    found = statistics(graph)
    assert found["nodes"] == 5
    assert found["entries"] == 6
    assert found["undirected_edges"] == 3
    assert found["mean_degree"] == pytest.approx(1.2)
    assert found["max_degree"] == 2
    assert found["isolated_nodes"] == 1
    assert found["split_sizes"] == {"train": 2, "val": 1, "test": 1}
    assert found["split_fractions"] == {"train": 0.4, "val": 0.2, "test": 0.2}
    assert found["homophily"] == pytest.approx(1 / 2)  # 0-1 agrees, 1-2 does not, 2-3 has no label
    assert found["entries_within_splits"] == 2
    assert found["within_split"] == pytest.approx(1 / 3)


def test_statistics_of_a_graph_without_edges(graph_of):
    found = statistics(graph_of([], [0, 1]))
    assert found["homophily"] is None
    assert found["within_split"] is None
    assert found["max_degree"] == 0


def test_two_unlabelled_neighbours_are_no_agreement(graph_of):
    assert statistics(graph_of([(0, 1), (1, 2)], [0, 0, 0], labels=[-1, -1, 1]))["homophily"] is None
