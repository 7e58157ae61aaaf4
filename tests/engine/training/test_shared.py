"""First layers computed once for each node: the same sums and norms as autograd's, whatever is shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.engine.sampling.edge_lists import empty_edge_lists, full_edge_lists, pack_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training.clipping import clipped_gradient_sum, gradient_norms, gradient_sum, root_losses
from dpgraph.engine.training.fused import inputs, passes, shared
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.fused.row_loops import ADD_ROWS, PULL_SUMS, WEIGH
from dpgraph.engine.training.fused.shared import SharedNodes, groups
from dpgraph.engine.training.ghost import norms_with_products
from dpgraph.engine.training.precision import products_in
from tests.engine.training.test_fused import LOSSES, POSITIONS, features, network_for, recorded  # noqa: F401

CASES = [
    (kind, hops, n_enc, 1, activation)
    for kind, hops in (("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2))
    for n_enc, activation in ((1, "tanh"), (1, "relu"), (3, "tanh"))
]
# half of the grid, in which each two factors have met in all ways
MET = [
    (case, loss, mode)
    for place, case in enumerate(CASES)
    for loss, mode in ((("root", "joint"), ("neighbours", "groups")), (("root", "groups"), ("neighbours", "joint")))[
        place % 3 % 2
    ]
]


@pytest.fixture
def always(monkeypatch):
    """All nodes are shared, however few; pieces, parts and groups are small."""
    monkeypatch.setattr(shared, "WORTH", 0)
    monkeypatch.setattr(inputs, "WORTH", 0)
    monkeypatch.setattr(passes, "WORTH", 0)
    monkeypatch.setattr(shared, "LEAST_COLUMNS", -1.0)
    monkeypatch.setattr(shared, "CACHED", 40)
    monkeypatch.setattr(inputs, "CACHED", 40)
    made = []
    first = SharedNodes.__init__

    def noted(self, *arguments):
        first(self, *arguments)
        made.append(self)

    monkeypatch.setattr(SharedNodes, "__init__", noted)
    return made


def trees_of(graph, hops, chunk_rows=100):
    lists = full_edge_lists(graph, graph.train_nodes) if hops else empty_edge_lists(graph)
    return pack_ego_trees(lists, graph.train_nodes, hops, chunk_rows=chunk_rows)


@pytest.mark.parametrize(("case", "loss", "mode"), MET, ids=str)
def test_sums_and_norms_are_those_of_autograd(graph, make_network, features, case, loss, mode, always, monkeypatch):  # noqa: F811
    kind, hops, *rest = case
    network = network_for(make_network, features, kind, hops, *rest)
    trees = trees_of(graph, hops)
    labels = torch.from_numpy(graph.labels).clone()
    labels[graph.train_nodes[21]] = -1  # a null record
    clip = 0.05 if mode == "joint" else {name: 0.02 * (i + 1) for i, name in enumerate(network.groups)}
    arguments = (network, trees, POSITIONS, features, labels, clip, LOSSES[loss])
    expected = recorded(monkeypatch, *arguments)
    assert not always
    for most, own in ((1 << 20, TreeInputs(trees, features)), (55 * 32, TreeInputs(trees, features)), (1 << 20, None)):
        monkeypatch.setattr(shared, "MOST_BYTES", most)
        always.clear()
        result = clipped_gradient_sum(*arguments, own)
        assert len(always) == 1 or most < 1 << 20
        assert all(len(one.nodes) * 32 <= most for one in always)
        assert result.dropped == expected.dropped == 0
        torch.testing.assert_close(result.loss, expected.loss, rtol=1e-10, atol=1e-12)
        slack = 1e-7 if loss == "neighbours" else 1e-12
        torch.testing.assert_close(result.norms, expected.norms, rtol=1e-10, atol=slack)
        for mine, theirs in zip(result.sums, expected.sums, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sum_without_privacy_and_norms(graph, make_network, features, case, always):  # noqa: F811
    kind, hops, *rest = case
    network, trees = network_for(make_network, features, kind, hops, *rest), trees_of(graph, hops)
    labels = torch.from_numpy(graph.labels)
    batch = trees.batch(POSITIONS)
    loss = torch.nn.functional.cross_entropy(network(batch, features), labels[batch.roots], reduction="sum")
    expected = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
    result = gradient_sum(network, trees, POSITIONS, features, labels, TreeInputs(trees, features))
    assert always
    for mine, theirs in zip(result, expected, strict=True):
        torch.testing.assert_close(mine, torch.zeros_like(mine) if theirs is None else theirs, rtol=1e-10, atol=1e-12)
    norms = gradient_norms(network, trees, POSITIONS, features, labels)
    groups_of = dict.fromkeys(network.groups, 1.0)
    arguments = (network, trees, POSITIONS, features, labels, groups_of)
    torch.testing.assert_close(norms, clipped_gradient_sum(*arguments).norms, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_roots_that_are_lost_leave_the_others_alone(graph, make_network, features, kind, activation, poison, always):  # noqa: F811
    """A record that is not finite reaches the sum of no other root, though nodes are shared with its readers."""
    network, trees = network_for(make_network, features, kind, 1, 1, 1, activation), trees_of(graph, 1)
    labels = torch.from_numpy(graph.labels)
    poisoned = features.clone()
    poisoned[30, 3] = poison
    nodes = [set(trees.batch(np.array([i])).nodes.tolist()) for i in POSITIONS]
    clean = np.array([i for i, read in zip(POSITIONS, nodes, strict=True) if 30 not in read])
    lost = set().union(*(read for read in nodes if 30 in read))
    assert 0 < len(clean) < len(POSITIONS)
    assert any(lost & read for read in nodes if 30 not in read)
    result = clipped_gradient_sum(
        network, trees, POSITIONS, poisoned, labels, 0.1, root_losses, TreeInputs(trees, poisoned)
    )
    expected = clipped_gradient_sum(network, trees, clean, features, labels, 0.1)
    assert always
    assert result.dropped == len(POSITIONS) - len(clean)
    for mine, theirs in zip(result.sums, expected.sums, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_one_root_contributes_at_most_the_clip_norm(graph, make_network, always):
    network, trees = make_network(1, 1, 2), trees_of(graph, 1)
    values, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
    known = TreeInputs(trees, values)
    for clip in (1e-3, 0.1):
        whole = clipped_gradient_sum(network, trees, POSITIONS, values, labels, clip, inputs=known)
        for left in range(0, len(POSITIONS), 4):
            rest = np.delete(POSITIONS, left)
            without = clipped_gradient_sum(network, trees, rest, values, labels, clip, inputs=known)
            apart = [a - b for a, b in zip(whole.sums, without.sums, strict=True)]
            assert float(torch.cat([one.flatten() for one in apart]).norm()) <= clip * (1 + 1e-9)
    assert always


def shared_by(network, trees, positions, values):
    return [group.present is not None for group in groups(network, trees, positions, values)]


def test_nodes_are_shared_where_that_pays(graph, make_network, monkeypatch):
    values = torch.from_numpy(graph.features).double()
    everyone = np.arange(len(graph.train_nodes))
    network, trees = make_network(1), trees_of(graph, 1)
    assert shared_by(network, trees, everyone, values) == [False]  # few rows: compiled loops are not loaded for them
    monkeypatch.setattr(shared, "WORTH", 0)
    assert shared_by(network, trees, everyone, values) == [True]
    assert shared_by(network, trees, everyone[:1], values) == [False]  # a tree has each node once
    assert shared_by(make_network(0), trees_of(graph, 0), everyone, values) == [False]
    with products_in("bf16"):
        if torch.backends.mkldnn.matmul.fp32_precision == "bf16":
            assert shared_by(network, trees, everyone, values.float()) == [False]
            assert shared_by(network, trees, everyone, values) == [True]  # float64 is not rounded


def test_of_bounded_lists_no_list_decides_what_is_shared(graph, make_network, monkeypatch):
    """How the gradients of all roots are added up follows from public numbers: N, roots, K and D."""
    monkeypatch.setattr(shared, "WORTH", 0)
    values, network = torch.from_numpy(graph.features).double(), make_network(1)
    chosen = {}
    for cap, entries in ((1, 0), (1, 1), (8, 0), (8, 8)):
        owners = np.repeat(np.arange(60), entries)
        members = (owners + np.tile(np.arange(1, entries + 1), 60)) % 60
        lists = replace(pack_lists(60, owners, members), max_degree=cap)
        trees = pack_ego_trees(lists, graph.train_nodes, 1)
        chosen.setdefault(cap, []).append(shared_by(network, trees, np.arange(len(graph.train_nodes)), values))
    assert chosen == {1: [[False]] * 2, 8: [[True]] * 2}


def test_sums_over_many_roots_are_exact():
    """Added up in float32, one after the other, 60,000 equal rows are off by parts of 10,000."""
    above, output = np.full(2, 0.3, dtype=np.float32), np.zeros(2, dtype=np.float32)
    readers, below, total = np.zeros(60_000, dtype=np.int64), np.empty_like(output), np.zeros(2)
    PULL_SUMS["f4"](0, 2, np.array([0, 60_000]), readers, above, output, below, total)
    sums, roots = np.zeros(2), np.zeros(60_000, dtype=np.int64)
    ADD_ROWS["f4"](2, np.arange(60_001), roots, roots, np.ones(60_000, dtype=np.float32), above, sums)
    rows, weighted, weights = np.full(120_000, 0.3, dtype=np.float32), np.empty(120_000, dtype=np.float32), np.zeros(2)
    WEIGH["f4"](2, np.ones(60_000, dtype=np.float32), rows, weighted, weights)
    for found in (below, total, sums, weights):
        np.testing.assert_allclose(found, 60_000 * float(np.float32(0.3)), rtol=1e-7)


@pytest.mark.parametrize("kept", [1 << 20, 30 * 32])
def test_every_root_is_in_one_piece_and_memory_is_bounded(graph, make_network, kept, always, monkeypatch):
    monkeypatch.setattr(shared, "MOST_BYTES", kept)
    monkeypatch.setattr(shared, "LEAST_COLUMNS", 20.0)
    network, trees = make_network(1), trees_of(graph, 1)
    values = torch.from_numpy(graph.features).double()
    positions = np.random.default_rng(0).permutation(len(graph.train_nodes))
    places = []
    for group in groups(network, trees, positions, values):
        assert group.present is None or np.count_nonzero(group.present) * 32 <= kept
        for piece in group.pieces:
            assert np.array_equal(piece.roots.numpy(), graph.train_nodes[positions[piece.places]])
            places += piece.places.tolist()
    assert sorted(places) == list(range(len(positions)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shared_rows", [True, False])
def test_norms_by_a_loop_are_those_of_products(graph, dtype, shared_rows):
    trees = trees_of(graph, 1)
    known = TreeInputs(trees, torch.from_numpy(graph.features).to(dtype))
    sizes = np.diff(trees.row_ptr[-1])
    width = int(sizes[len(sizes) // 2])
    ranks = np.flatnonzero(sizes == width)
    draw = torch.Generator().manual_seed(0)
    above = torch.randn(len(ranks), 1 if shared_rows else width, 20, generator=draw, dtype=dtype)
    above = above.expand(-1, width, -1) if shared_rows else above
    output = torch.randn(len(ranks) * width, 20, generator=draw, dtype=dtype)
    states = shared.IndexedRows(output.flip(0), np.arange(len(output))[::-1].copy())
    for kind, slope in ((0, torch.ones_like(output)), (1, 1 - output**2), (2, (output > 0).to(dtype))):
        mine = known.norms(ranks, sizes[ranks], kind, states, shared.IndexedRows.from_rows(above))
        gradients = above * slope.view(len(ranks), width, 20)
        for own, theirs in zip(mine, norms_with_products(known.products(ranks, sizes[ranks]), gradients), strict=True):
            torch.testing.assert_close(own, theirs)
