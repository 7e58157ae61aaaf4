"""Gradients of single nodes in Kipf's GCN, clipped one by one: against autograd, node by node, in float64."""

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models import kipf
from dpgraph.engine.models.kipf import GraphBlocks, Read, dropout_factors
from dpgraph.families.subgraphs.steps import NodeClipping, node_norms
from tests.engine.models.test_kipf import CPU, graph_of, network_of, random_graph


def dense(graph):
    """(N, N) A^ as the blocks have it: rounded to float32, products in float64."""
    whole = GraphBlocks(graph, CPU).whole().outer
    return whole.times(torch.eye(graph.num_nodes, dtype=torch.float64))


def one_by_one(network, graph, nodes, kept=None):
    """(n, P) gradients of each node's own loss, by autograd; `kept` (N, width) what dropout multiplies with."""
    matrix, features = dense(graph), torch.from_numpy(graph.features).double()
    rows = []
    for node in nodes.tolist():
        theta = network.theta.data.clone().requires_grad_()
        w1, b1, w2, b2 = network.layers(theta)
        hidden = torch.relu(matrix @ features @ w1 + b1)
        hidden = hidden if kept is None else hidden * kept
        logits = (matrix @ hidden @ w2 + b2)[node]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(int(graph.labels[node])), ignore_index=-1)
        rows.append(torch.autograd.grad(loss, theta)[0])
    return torch.stack(rows).nan_to_num(0.0)  # the mean over no label is 0 / 0


def clipped_sum(rows, clip_norm):
    return (rows * (clip_norm / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)).sum(0)


def computed_sum(network, block, clip_norm, kept=None):
    into = torch.zeros_like(network.theta.data)
    network.gradient(Read(block, kept), into, NodeClipping(clip_norm))
    return into


def norms_of(network, block, kept=None):
    held = []
    network.gradient(
        Read(block, kept),
        torch.zeros_like(network.theta.data),
        lambda found: held.append(node_norms(found)) or torch.ones(block.num_nodes, dtype=torch.float64),
    )
    return held[0]


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    zeros=st.sampled_from([0.0, 0.9, 1.0]),
    density=st.sampled_from([0.0, 0.2, 0.7]),
    clip_norm=st.sampled_from([0.05, 0.5, 100.0]),
    dropped=st.booleans(),
)
def test_norms_and_clipped_sums_are_those_of_single_nodes(size, seed, zeros, density, clip_norm, dropped):
    graph = random_graph(size, seed, density, zeros)
    graph.labels[numpy_generator("null", seed).random(size) < 0.1] = -1
    nodes = np.flatnonzero(numpy_generator("chosen", seed).random(size) < 0.6)
    nodes = nodes if len(nodes) else np.array([0])
    network = network_of().double()
    network.theta.data += 0.1  # biases, too
    block = GraphBlocks(graph, CPU).masked(nodes)
    kept = dropout_factors(size, 5, 0.5, torch_generator("kept", seed)).double() if dropped else None
    hidden = np.flatnonzero(dense(graph)[nodes].sum(0))
    rows = one_by_one(network, graph, nodes, kept)
    mine = None if kept is None else kept[hidden]
    assert torch.allclose(norms_of(network, block, mine), rows.norm(dim=1), rtol=1e-7, atol=1e-10)
    with patch.object(kipf, "COLUMNS", 4), patch.object(kipf, "PIECE", 12):  # several pieces of each
        pieces = GraphBlocks(graph, CPU).masked(nodes)
        assert torch.allclose(computed_sum(network, pieces, clip_norm, mine), clipped_sum(rows, clip_norm), atol=1e-10)
    assert torch.allclose(computed_sum(network, block, clip_norm, mine), clipped_sum(rows, clip_norm), atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(size=st.integers(2, 10), seed=st.integers(0, 10**6), node=st.integers(0, 9), hub=st.booleans())
def test_one_node_moves_the_sum_by_at_most_2C_for_each_node(size, seed, node, hub):
    """Any other record and any other edges of one node, in float32, whose norms may be rounded."""
    random, node = numpy_generator("moved", seed), node % size
    before = random_graph(size, seed, 0.4, 0.0)
    edges = dense(before).numpy() > 0
    np.fill_diagonal(edges, False)
    mine = random.random(size) < 0.5 if not hub else np.ones(size, dtype=bool)
    mine[node] = False
    edges[node], edges[:, node] = mine, mine
    features, labels = before.features * 10, (before.labels + (np.arange(size) == node)) % 3
    features[node] *= -1e4
    after = graph_of(edges, features, labels)
    network, everyone = network_of(), np.arange(size)
    sums = [computed_sum(network, GraphBlocks(one, CPU).masked(everyone), 0.5) for one in (before, after)]
    assert float((sums[0] - sums[1]).norm()) <= 2 * 0.5 * size
    assert all(float(one.norm()) <= 0.5 * size for one in sums)


def star(size, leaf, hub=None):
    """Leaves of one feature value around node 0, which is alone if it has no value."""
    edges = np.zeros((size, size), dtype=bool)
    if hub is not None:
        edges[0, 1:] = edges[1:, 0] = True
    features = np.full((size, 2), leaf, dtype=np.float32)
    features[0] = 0 if hub is None else hub
    labels = np.zeros(size, dtype=np.int64)
    labels[0] = -1 if hub is None else 0
    return graph_of(edges, features, labels, classes=2)


def test_one_node_of_any_degree_turns_all_gradients_around():
    """So neither C, as the moments accountant has it, nor 2 C bounds what one node does to the sum: 2 C a node does."""
    size, clip_norm = 30, 0.5
    network = network_of(width=1, features=2, classes=2)
    w1, b1, w2, b2 = network.layers(network.theta.data)
    for part, value in ((w1, 0.0), (b1, 1.0), (b2, 0.0)):
        part.fill_(value)
    w2.copy_(torch.tensor([[1e-3, -1e-3]]))
    sides = [star(size, 1e6), star(size, 1e6, hub=-1e12)]
    sums = [computed_sum(network, GraphBlocks(one, CPU).masked(np.arange(1, size)), clip_norm) for one in sides]
    moved = float((sums[0] - sums[1]).norm()) / clip_norm
    assert moved > 0.99 * 2 * (size - 1) > 20 * 2
    assert moved <= 2 * (size - 1)


def test_a_node_whose_gradient_is_not_finite_contributes_nothing():
    graph = random_graph(8, 4, density=0.0, zeros=0.0)
    graph.features[3] = 1e30
    network = network_of()
    block = GraphBlocks(graph, CPU).masked(np.arange(8))
    kept = [node for node in range(8) if node != 3]
    alone = computed_sum(network, GraphBlocks(graph, CPU).masked(np.array(kept)), 0.5)
    together = computed_sum(network, block, 0.5)
    assert torch.isfinite(together).all()
    assert torch.allclose(together, alone, atol=1e-6)


def test_contributions_are_no_longer_than_the_clip_norm_in_float32():
    """Clip norms far below the gradients: what rounding adds is taken off before."""
    for seed in range(20):
        graph = random_graph(12, seed, 0.5, 0.0)
        graph.features[:] *= 1e3
        network = network_of()
        for node in range(12):
            block = GraphBlocks(graph, CPU).masked(np.array([node]))
            assert float(computed_sum(network, block, 0.1).double().norm()) <= 0.1


def test_a_far_record_of_a_sure_node_stays_within_the_clip_norm():
    """A record of 1e19 whose slope is 1e-20: the square of the slope is 0 where denormal numbers are flushed."""
    network = network_of(width=1, features=2, classes=2)
    network.theta.data.zero_()
    w1, _, w2, _ = network.layers(network.theta.data)
    w1[0], w2[:] = 1e-18, torch.tensor([[2.3, -2.3]])
    features = np.array([[1e19, 0], [0, 0]], dtype=np.float32)
    graph = graph_of(np.zeros((2, 2), dtype=bool), features, np.zeros(2, dtype=np.int64), classes=2)
    block = GraphBlocks(graph, CPU).masked(np.array([0]))
    torch.set_flush_denormal(True)
    try:
        lengths = [float(computed_sum(network, block, clip_norm).double().norm()) for clip_norm in (1e30, 1e-3)]
    finally:
        torch.set_flush_denormal(False)
    assert lengths[0] > 0.1
    assert 0 < lengths[1] <= 1e-3


def test_neighbourhoods_beyond_memory_are_refused():
    graph = random_graph(10, 1, 0.9)
    with (
        patch.object(kipf, "MOST_PAIRS", 500),
        pytest.raises(UserError, match="expected at most 500 pairs of neighbours of the same node"),
    ):
        _ = GraphBlocks(graph, CPU).masked(np.arange(10)).neighbourhoods


def test_lengths_of_padded_neighbourhoods():
    ladder = kipf._ladder(1000)
    assert ladder[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert ladder[-1] >= 1000
    assert (np.diff(ladder) <= np.maximum(1, 0.2 * ladder[:-1])).all()
    assert math.isclose(ladder[-1] / ladder[-2], 1.2, rel_tol=0.02)
