import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.config import cell
from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import owners, transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT
from dpgraph.data.settings import SETTINGS, apply_setting


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
    assert SETTINGS == cell.SETTINGS
