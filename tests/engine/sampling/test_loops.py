"""Compiled loops against the array operations that define the same lists and trees, on graphs of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.engine.sampling import edge_lists, ego, list_loops, tree_loops
from dpgraph.engine.sampling.edge_lists import EdgeLists, full_edge_lists, sample_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import EgoTrees, pack_ego_trees

N = 12
GRAPHS = st.dictionaries(st.integers(0, N - 1), st.sets(st.integers(0, N - 1)), min_size=1, max_size=N).map(
    lambda lists: {v: sorted(members - {v}) for v, members in lists.items()}
)
ROOTS = st.sets(st.integers(0, N - 1)).map(lambda roots: np.array(sorted(roots), dtype=np.int64))
KEYS = st.integers(0, 2**64 - 1)
HUB = 2 * max(list_loops.FEW, tree_loops.COUNTED)  # longer lists than are counted, and larger trees


def hubs(graph_of):
    """Two nodes that list, and are listed by, all others, which form a ring; three more are isolated."""
    n = HUB + 5
    lists = {v: {0, 1, 2 + (v - 1) % HUB} for v in range(2, HUB + 2)} | {v: set(range(HUB)) for v in (0, 1)}
    return graph_of(n, {v: sorted(members - {v}) for v, members in lists.items()})


def same_lists(ours: EdgeLists, loops: EdgeLists) -> None:
    assert np.array_equal(ours.ptr, loops.ptr)
    assert np.array_equal(ours.idx, loops.idx)
    assert (ours.ptr.dtype, ours.idx.dtype) == (loops.ptr.dtype, loops.idx.dtype)


def same_trees(lists: EdgeLists, roots: np.ndarray, hops: int) -> None:
    arrays, loops = ego._packed(lists, roots, hops), ego._packed_by_loops(lists, roots, hops)
    assert np.array_equal(arrays.order, loops.order)
    assert np.array_equal(arrays.own, loops.own)
    named = [("nodes", [arrays.nodes], [loops.nodes])]
    named += [(name, getattr(arrays, name), getattr(loops, name)) for name in ("row_ptr", "segment_ptr", "columns")]
    for name, one, other in named:
        assert len(one) == len(other), name
        for a, b in zip(one, other):
            assert (a is None) == (b is None), name
            assert a is None or (np.array_equal(a, b) and a.dtype == b.dtype), name


def both(graph, roots, k: int, d: int, key: int) -> None:
    same_lists(*(make(graph, roots, k, d, key) for make in (edge_lists._stable, edge_lists._stable_by_loops)))
    draws = [np.random.default_rng(key) for _ in range(2)]
    made = (edge_lists._sampled, edge_lists._sampled_by_loops)
    same_lists(*(make(graph, roots, k, generator) for make, generator in zip(made, draws)))
    assert draws[0].random() == draws[1].random()  # what is drawn next is the same, too


@given(GRAPHS, ROOTS, st.integers(1, 5), st.integers(1, 5), KEYS)
@settings(max_examples=80, deadline=None)
def test_lists_equal_those_of_array_operations(graph_of, lists, roots, k, d, key):
    both(graph_of(N, lists, roots.tolist()), roots, k, d, key)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (7, 10), (3, HUB // 2), (HUB // 2, 3), (list_loops.FEW + 1,) * 2])
def test_lists_of_hubs_equal_those_of_array_operations(graph_of, k, d):
    graph = hubs(graph_of)
    for roots in (np.arange(graph.num_nodes), np.arange(1, graph.num_nodes, 3)):
        for key in (0, 2**63 + 11):
            both(graph, roots, k, d, key)


@given(GRAPHS, ROOTS, st.integers(1, 2), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_trees_equal_those_of_array_operations(graph_of, lists, roots, hops, order):
    shuffled = roots.tolist()
    order.shuffle(shuffled)
    same_trees(full_edge_lists(graph_of(N, lists), roots), np.array(shuffled, dtype=np.int64), hops)


@pytest.mark.parametrize("hops", [1, 2])
def test_trees_of_hubs_equal_those_of_array_operations(graph_of, hops):
    graph = hubs(graph_of)
    same_trees(full_edge_lists(graph, np.arange(graph.num_nodes)), np.arange(graph.num_nodes)[::-1].copy(), hops)
    few = np.arange(0, graph.num_nodes, 5)  # most lists are empty
    same_trees(full_edge_lists(graph, few), few, hops)


def test_large_inputs_are_left_to_loops(graph_of, monkeypatch):
    graph, calls = hubs(graph_of), []
    roots = np.arange(graph.num_nodes)
    for module, name in ((edge_lists, "_stable"), (edge_lists, "_sampled"), (ego, "_packed")):
        loops = getattr(module, f"{name}_by_loops")
        monkeypatch.setattr(module, f"{name}_by_loops", lambda *a, _l=loops, _n=name: (calls.append(_n), _l(*a))[1])

    def run():
        calls.clear()
        lists = stable_edge_lists(graph, roots, 2, 2, 5)
        sample_edge_lists(graph, roots, 2, np.random.default_rng(0))
        return [pack_ego_trees(lists, roots, hops) for hops in (0, 1, 2)]

    small = run()
    assert calls == []
    monkeypatch.setattr(edge_lists, "WORTH", 1)
    monkeypatch.setattr(ego, "WORTH", 1)
    large = run()
    assert calls == ["_stable", "_sampled", "_packed", "_packed"]  # a tree without messages is its root
    for one, other in zip(small, large):
        assert np.array_equal(one.rank, other.rank)
        assert np.array_equal(one.tree_sizes, other.tree_sizes)
        assert np.array_equal(one.nodes, other.nodes)


def test_loops_take_read_only_arrays(graph_of):
    graph = hubs(graph_of)
    graph.out_ptr.setflags(write=False)
    graph.out_idx.setflags(write=False)
    roots = np.arange(graph.num_nodes)
    lists = edge_lists._stable_by_loops(graph, roots, 3, 3, 1)
    lists.idx.setflags(write=False)
    same_trees(lists, roots, 2)


def test_ids_outside_of_the_graph_are_not_read():
    lists = EdgeLists(np.array([0, 1, 2]), np.array([1, 2], dtype=np.int32))
    with pytest.raises(ValueError, match=r"^ids 1\.\.2 in lists of 2 nodes$"):
        ego._packed_by_loops(lists, np.arange(2), 1)


@pytest.mark.parametrize(("hops", "rows"), [(1, 10), (2, 22)])
def test_trees_that_do_not_fit(graph_of, monkeypatch, hops, rows):
    monkeypatch.setattr(ego, "MAX_ROWS", rows - 1)
    lists = full_edge_lists(graph_of(4, {0: [1, 2, 3], 1: [0, 2, 3]}), np.arange(4))
    for pack in (ego._packed, ego._packed_by_loops):
        with pytest.raises(UserError, match=rf"^ego trees have {rows} rows: expected at most {rows - 1} \(choose"):
            pack(lists, np.arange(4), hops)


@given(GRAPHS, st.integers(0, 2), st.data())
@settings(max_examples=100, deadline=None)
def test_batches_of_the_host_and_of_a_device_are_the_same(graph_of, lists, hops, data):
    roots = np.array(sorted(data.draw(st.sets(st.integers(0, N - 1), min_size=1))))
    trees: EgoTrees = pack_ego_trees(full_edge_lists(graph_of(N, lists), roots), roots, hops)
    ranks = np.array(data.draw(st.permutations(range(len(roots)))))[: data.draw(st.integers(0, len(roots)))]
    places = np.arange(len(ranks))
    host, device = trees._host_slice(ranks, places), trees._device_slice(ranks, places)
    pairs = [(host.roots, device.roots), (host.nodes, device.nodes), (host.own, device.own)]
    assert all(np.array_equal(a, b) for a, b in zip(host.sizes, device.sizes, strict=True))
    for one, other in zip(host.hops, device.hops, strict=True):
        pairs.append((one.ptr, other.ptr))
        assert (one.columns is None) == (other.columns is None)
        if one.columns is not None:
            pairs.append((one.columns, other.columns))
    for a, b in pairs:
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()
