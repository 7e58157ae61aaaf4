"""Kipf's GCN against dense matrices and autograd; what a block reads."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN
from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork, Read, dropout_factors
from dpgraph.engine.models.sparse import Bags, Csr, DenseMatrix, Features, SparseMatrix, declared_density

CPU = torch.device("cpu")


def graph_of(edges, features, labels, classes=3):
    ptr = np.concatenate([[0], np.cumsum(edges.sum(axis=1))])
    idx = np.nonzero(edges)[1].astype(np.int32)
    split = np.full(len(edges), TRAIN, dtype=np.uint8)
    return Graph(
        name="toy",
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=ptr,
        in_idx=idx,
        features=features,
        labels=labels,
        split=split,
        num_classes=classes,
    )


def random_graph(size, seed, density=0.3, zeros=0.8):
    random = numpy_generator("kipf", size, seed)
    upper = np.triu(random.random((size, size)) < density, 1)
    features = random.normal(size=(size, 6)).astype(np.float32) * (random.random((size, 6)) > zeros)
    return graph_of(upper | upper.T, features, random.integers(0, 3, size))


def adjacency(graph):
    dense = np.zeros((graph.num_nodes, graph.num_nodes))
    for node in range(graph.num_nodes):
        dense[node, graph.out_idx[graph.out_ptr[node] : graph.out_ptr[node + 1]]] = 1
    return dense


def dense_normalized(matrix):
    closed = matrix + np.eye(len(matrix))
    scale = closed.sum(axis=1) ** -0.5
    return torch.from_numpy(scale[:, None] * closed * scale)


def oracle(network, matrix, features, chosen, labels, kept=None):
    """Logits and gradient in float64 by dense products and autograd (Eq. 4 of the paper, twice)."""
    theta = network.theta.detach().double().requires_grad_()
    w1, b1, w2, b2 = network.layers(theta)
    hidden = torch.relu(matrix @ torch.from_numpy(features).double() @ w1 + b1)
    if kept is not None:
        hidden = hidden * kept
    logits = (matrix @ hidden @ w2 + b2)[chosen]
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    return logits, torch.autograd.grad(loss, theta)[0]


def network_of(width=5, features=6, classes=3):
    return KipfNetwork(features, width, classes, torch_generator("kipf"), CPU)


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 10),
    seed=st.integers(0, 10**6),
    zeros=st.sampled_from([0.0, 0.9, 1.0]),
    density=st.sampled_from([0.0, 0.2, 0.6]),
)
def test_logits_and_gradients_are_those_of_dense_matrices(size, seed, zeros, density):
    graph = random_graph(size, seed, density, zeros)
    nodes = np.flatnonzero(numpy_generator("chosen", seed).random(size) < 0.5)
    nodes = nodes if len(nodes) else np.array([0])
    blocks, network, dense = GraphBlocks(graph, CPU), network_of(), adjacency(graph)
    whole, among = dense_normalized(dense), dense_normalized(dense[np.ix_(nodes, nodes)])
    cases = [
        (blocks.whole(), whole, graph.features, np.arange(size), graph.labels),
        (blocks.masked(nodes), whole, graph.features, nodes, graph.labels[nodes]),
        (blocks.induced(nodes), among, graph.features[nodes], np.arange(len(nodes)), graph.labels[nodes]),
    ]
    for block, matrix, features, chosen, labels in cases:
        logits, gradient = oracle(network, matrix, features, chosen, labels)
        found = torch.zeros_like(network.theta.data)
        network.gradient(Read(block), found)
        assert torch.allclose(network.logits(block).double(), logits, atol=1e-5)
        assert torch.allclose(found.double(), gradient, atol=1e-5)
        assert float(network.loss(block)) == pytest.approx(
            float(torch.nn.functional.cross_entropy(logits.detach(), torch.from_numpy(labels))), abs=1e-5
        )


def test_a_node_without_label_has_no_loss():
    """Alone it moves nothing; among others only what they read of it."""
    graph = random_graph(9, 3)
    labels = graph.labels.copy()
    labels[[2, 5]] = -1
    graph = replace(graph, labels=labels)
    network, block = network_of(), GraphBlocks(graph, CPU).whole()
    matrix, labelled = dense_normalized(adjacency(graph)), np.flatnonzero(labels >= 0)
    _, gradient = oracle(network, matrix, graph.features, labelled, labels[labelled])
    computed = torch.zeros_like(network.theta.data)
    network.gradient(Read(block), computed)
    assert torch.allclose(computed.double(), gradient * len(labelled) / 9, atol=1e-5)
    network.gradient(Read(GraphBlocks(graph, CPU).induced(np.array([2, 5]))), computed)
    assert not computed.any()


def test_dropout_multiplies_the_hidden_layer():
    graph = random_graph(9, 1, zeros=0.0)
    network, block = network_of(), GraphBlocks(graph, CPU).whole()
    kept = dropout_factors(9, 5, 0.5, torch_generator("dropout"))
    _, gradient = oracle(network, dense_normalized(adjacency(graph)), graph.features, np.arange(9), graph.labels, kept)
    found = torch.zeros_like(network.theta.data)
    network.gradient(Read(block, kept), found)
    assert torch.allclose(found.double(), gradient, atol=1e-5)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(rate):
    factors = dropout_factors(2001, 33, rate, torch_generator("dropout", str(rate)))
    assert factors.shape == (2001, 33)
    share = (factors == 0).double().mean()
    assert share == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / factors.numel()))
    assert factors[factors > 0].unique().tolist() == pytest.approx([1 / (1 - rate)], rel=1e-4)
    assert abs(torch.corrcoef(torch.stack([factors[:-1].flatten(), factors[1:].flatten()]))[0, 1]) < 0.02


def test_initial_parameters_are_glorot_uniform():
    network = KipfNetwork(300, 32, 7, torch_generator("glorot"), CPU)
    w1, b1, w2, b2 = network.layers(network.theta.data)
    for weights in (w1, w2):
        bound = math.sqrt(6 / sum(weights.shape))
        assert weights.abs().max() <= bound
        assert weights.std() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    assert not b1.any()
    assert not b2.any()
    assert len(network.theta) % 64 == 0
    assert network.size == 300 * 32 + 32 + 32 * 7 + 7
    with pytest.raises(UserError, match="width=0"):
        KipfNetwork(3, 0, 2, torch_generator("glorot"), CPU)


def test_lists_that_hold_an_edge_once_are_taken_as_undirected():
    edges = np.zeros((3, 3), dtype=bool)
    edges[0, 1] = edges[2, 1] = True
    features = np.ones((3, 2), dtype=np.float32)
    one_way = GraphBlocks(graph_of(edges, features, np.zeros(3, dtype=int)), CPU)
    both = GraphBlocks(graph_of(edges | edges.T, features, np.zeros(3, dtype=int)), CPU)
    assert torch.equal(one_way.whole().outer.rows.values, both.whole().outer.rows.values)


def test_induced_blocks_read_nothing_else():
    """Features, labels and edges outside of the chosen nodes may be anything."""
    graph = random_graph(10, 5)
    nodes = np.array([1, 4, 5, 8])
    wild = random_graph(10, 6, density=0.9)
    inside = np.isin(np.arange(10), nodes)
    edges = np.where(inside[:, None] & inside[None, :], adjacency(graph), adjacency(wild)).astype(bool)
    features = np.where(inside[:, None], graph.features, 100 * wild.features).astype(np.float32)
    other = graph_of(edges, features, np.where(inside, graph.labels, wild.labels))
    network = network_of()
    rows = []
    for one in (graph, other):
        gradients = torch.zeros_like(network.theta.data)
        network.gradient(Read(GraphBlocks(one, CPU).induced(nodes)), gradients)
        rows.append(gradients)
    assert torch.equal(*rows)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 8), columns=st.integers(1, 8), seed=st.integers(0, 10**6), zeros=st.floats(0, 1))
def test_sparse_matrices(rows, columns, seed, zeros):
    random = numpy_generator("sparse", seed)
    dense = (random.normal(size=(rows, columns)) * (random.random((rows, columns)) >= zeros)).astype(np.float32)
    csr = Csr.from_scipy(sp.csr_matrix(dense))
    chosen = random.integers(0, rows, 5)
    right, left = torch.randn(columns, 3), torch.randn(5, 3)
    taken = csr.take(chosen)
    assert np.array_equal(taken.ptr[1:] - taken.ptr[:-1], np.diff(csr.ptr)[chosen])
    for matrix in (SparseMatrix.from_csr(taken, CPU), DenseMatrix(torch.from_numpy(dense), torch.from_numpy(chosen))):
        expected = torch.from_numpy(dense[chosen])
        assert torch.allclose(matrix.times(right), expected @ right, atol=1e-5)
        assert torch.allclose(matrix.transposed_times(left), expected.T @ left, atol=1e-5)
    used = np.unique(csr.columns)
    renamed = Bags.from_csr(csr.renamed(used), CPU).sums(right[used])
    assert torch.allclose(renamed, torch.from_numpy(dense) @ right, atol=1e-5)


def test_features_are_sparse_where_few_are_declared_to_be_not_zero():
    random = numpy_generator("features")
    full = random.normal(size=(7, 4)).astype(np.float32)
    few = full * (random.random((7, 4)) < 0.2)
    nodes, weights = np.array([3, 0, 6]), torch.randn(4, 2)
    for values, share, kind in ((full, 0.3, DenseMatrix), (few, 0.2, SparseMatrix), (full, 0.2, SparseMatrix)):
        with declared_density(share):
            features = Features(values, CPU)
        assert isinstance(features.all, kind)
        assert torch.allclose(features.take(nodes).times(weights), torch.from_numpy(values[nodes]) @ weights, atol=1e-6)
        assert features.take(nodes).nbytes > 0
