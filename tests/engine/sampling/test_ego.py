"""Packed ego trees against the recursion of Algorithm 2."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.engine.sampling.edge_lists import full_edge_lists
from dpgraph.engine.sampling.ego import ROOT_ROWS, pack_ego_trees

N = 9
GRAPHS = st.dictionaries(st.integers(0, N - 1), st.sets(st.integers(0, N - 1)), min_size=1, max_size=N).map(
    lambda lists: {v: sorted(members - {v}) for v, members in lists.items()}
)


def repeated_mean(lists, v: int, hops: int) -> dict[int, Fraction]:
    if hops == 0:
        return {v: Fraction(1)}
    closed = [v, *lists.members(v).tolist()]
    total: dict[int, Fraction] = {}
    for u in closed:
        for w, weight in repeated_mean(lists, u, hops - 1).items():
            total[w] = total.get(w, Fraction(0)) + weight / len(closed)
    return total


def packed_mean(batch, i: int) -> dict[int, Fraction]:
    """The same from the packed arrays, walking down from the root's row and checking that rows are its own."""

    def down(level: int, row: int) -> dict[int, Fraction]:
        starts = np.cumsum(batch.sizes[level]) - batch.sizes[level]
        assert starts[i] <= row < starts[i] + batch.sizes[level][i]
        if level == len(batch.hops):
            return {int(batch.nodes[row]): Fraction(1)}
        hop = batch.hops[level]
        columns = np.arange(int(hop.ptr[-1])) if hop.columns is None else hop.columns.numpy()
        columns = columns[hop.ptr[row] : hop.ptr[row + 1]].tolist()
        assert len(set(columns)) == len(columns)
        total: dict[int, Fraction] = {}
        for column in columns:
            for w, weight in down(level + 1, column).items():
                total[w] = total.get(w, Fraction(0)) + weight / len(columns)
        return total

    return down(0, i)


@given(GRAPHS, st.integers(0, 2), st.integers(1, 20), st.data())
@settings(max_examples=150, deadline=None)
def test_packed_trees_equal_the_recursion(graph_of, lists, hops, chunk_rows, data):
    roots = np.array(sorted(data.draw(st.sets(st.integers(0, N - 1), min_size=1))))
    result = full_edge_lists(graph_of(N, lists), roots)
    trees = pack_ego_trees(result, roots, hops, chunk_rows=chunk_rows)
    positions = np.array(data.draw(st.permutations(range(len(roots)))))[: data.draw(st.integers(1, len(roots)))]
    batch = trees.batch(positions)
    assert batch.roots.tolist() == roots[positions].tolist()
    seen = {}
    for piece in [batch, *trees.chunks(positions)]:
        assert [len(s) for s in piece.sizes] == [piece.num_roots] * (hops + 1)
        assert sum(piece.sizes[-1]) == len(piece.nodes)
        assert piece.nodes[piece.own].tolist() == piece.roots.tolist()
        for i, v in enumerate(piece.roots.tolist()):
            assert v == roots[positions[piece.places[i]]]
            assert packed_mean(piece, i) == repeated_mean(result, v, hops)
            seen[v] = seen.get(v, 0) + 1
    assert seen == dict.fromkeys(roots[positions].tolist(), 2)  # once in the batch, once in its chunks
    for p, v in enumerate(roots.tolist()):
        assert trees.tree_sizes[p] == len(repeated_mean(result, v, hops))


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_a_hub_is_neither_truncated_nor_padded(graph_of, hops):
    n = 500
    lists = full_edge_lists(graph_of(n, {0: range(1, n), 1: [0]}), np.arange(n))
    trees = pack_ego_trees(lists, np.arange(n), hops, chunk_rows=50)
    assert trees.tree_sizes[0] == (n if hops else 1)
    pieces = list(trees.chunks(np.arange(n)))
    assert sum(piece.num_roots for piece in pieces) == n
    assert sum(len(piece.nodes) for piece in pieces) == trees.tree_sizes.sum()


@given(GRAPHS, st.integers(0, 2), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_roots_bound_a_chunk_as_rows_do(graph_of, lists, hops, chunk_rows):
    """A chunk's cost is below `chunk_rows` without its last tree, and there are no more chunks than that needs."""
    trees = pack_ego_trees(full_edge_lists(graph_of(N, lists), np.arange(N)), np.arange(N), hops, chunk_rows=chunk_rows)
    costs = [piece.sizes[-1] + ROOT_ROWS for piece in trees.chunks(np.arange(N))]
    assert all(cost.sum() < chunk_rows + cost.max() for cost in costs)
    assert len(costs) <= 1 + sum(cost.sum() for cost in costs) // chunk_rows
    sizes = np.concatenate([piece.sizes[-1] for piece in trees.chunks(np.arange(N))])
    assert (np.diff(sizes) >= 0).all()
    assert len(sizes) == N


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_without_messages_every_tree_is_its_root(graph_of, hops):
    lists = full_edge_lists(graph_of(6, {0: [1, 2, 3], 3: [4], 4: [0]}), np.arange(6))
    batch = pack_ego_trees(lists, np.arange(6), hops).batch(np.array([4, 0, 3])).without_messages()
    assert batch.nodes.tolist() == [4, 0, 3]
    assert [packed_mean(batch, i) for i in range(3)] == [{4: 1}, {0: 1}, {3: 1}]


def test_empty_batch(graph_of):
    trees = pack_ego_trees(full_edge_lists(graph_of(4, {0: [1]}), np.arange(4)), np.arange(4), 2)
    none = np.zeros(0, dtype=np.int64)
    assert list(trees.chunks(none)) == []
    assert trees.batch(none).nodes.shape == torch.Size([0])


def test_depth_outside_the_range(graph_of):
    lists = full_edge_lists(graph_of(4, {0: [1]}), np.arange(4))
    with pytest.raises(UserError, match=r"^hops=3: expected an integer in 0\.\.2$"):
        pack_ego_trees(lists, np.arange(4), 3)


def test_trees_that_do_not_fit(graph_of, monkeypatch):
    monkeypatch.setattr("dpgraph.engine.sampling.ego.MAX_ROWS", 9)
    lists = full_edge_lists(graph_of(4, {0: [1, 2, 3], 1: [0, 2, 3]}), np.arange(4))
    with pytest.raises(
        UserError, match=r"^ego trees have 10 rows: expected at most 9 \(choose a smaller max_degree\)$"
    ):
        pack_ego_trees(lists, np.arange(4), 1)
