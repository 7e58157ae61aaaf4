"""Message passing against the convolutions of PyTorch Geometric, with the same parameters: values and gradients.

Parameters are shared, not copied: both computations are differentiated by the very same tensors, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import APPNP, GCNConv, GINConv, SimpleConv, TransformerConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops, degree, to_undirected

from dpgraph.config.cell import Model
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.additive_attention import AttentionNetwork, closed_edges
from dpgraph.engine.models.dense import Dropout
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork, Read
from dpgraph.engine.models.message_passing import GatLayer, GinLayer
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.propagation import PowerIteration
from dpgraph.engine.models.sparse import Bags, Csr
from dpgraph.engine.sampling.edge_lists import full_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training.clipping import clipped_gradient_sum

TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
FEATURES, CLASSES = 4, 3
KINDS = [("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2)]


def pyg_logits(network: Network, features: Tensor, edges: Tensor) -> Tensor:
    """(N, F) features of all nodes, (2, E) edges from who is read to who reads -> (N, classes), differentiable.

    Encoder and decoder are the network's; messages are passed by PyTorch Geometric with the network's parameters.
    """
    states: Tensor = network.encoder(features)
    for layer in network.aggregation:
        states = pyg_layer(layer, states, edges)
    return network.decoder(states)


def pyg_layer(layer: nn.Module, states: Tensor, edges: Tensor) -> Tensor:
    """(N, width) -> (N, width) by PyTorch Geometric's convolution, around which activation and skip are written out."""
    act: Any = layer.activation
    if isinstance(layer, GinLayer):
        convolution = GINConv(nn.Identity(), train_eps=True)  # it would draw new parameters of what it is given
        convolution.nn, convolution.eps = layer.linear, layer.self_weight.epsilon
        return act(convolution(states, edges))
    if isinstance(layer, GatLayer):
        convolution = TransformerConv(states.shape[1], layer.head_width, heads=layer.query.heads, root_weight=False)
        for name, ours in (("lin_query", layer.query), ("lin_key", layer.key), ("lin_value", layer.value)):
            theirs = getattr(convolution, name)
            theirs.weight, theirs.bias = ours.weight, ours.bias
        closed, _ = add_remaining_self_loops(edges, num_nodes=len(states))
        return act(layer.output(convolution(states, closed)))
    mean: Tensor = SimpleConv(aggr="mean", combine_root="self_loop")(states, edges)
    linear: Any = layer.linear
    return mean + act(linear(mean))


def random_graph(nodes: int, density: float, seed: int, undirected: bool = False) -> Graph:
    """Lists of any length, some empty; one-way unless `undirected`."""
    random = numpy_generator("pyg", nodes, seed)
    dense = random.random((nodes, nodes)) < density
    np.fill_diagonal(dense, False)
    dense = dense | dense.T if undirected else dense

    def lists(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate([[0], np.cumsum(matrix.sum(1))]), np.nonzero(matrix)[1].astype(np.int32)

    (out_ptr, out_idx), (in_ptr, in_idx) = lists(dense), lists(dense.T)
    return Graph(
        name="toy",
        out_ptr=out_ptr,
        out_idx=out_idx,
        in_ptr=in_ptr,
        in_idx=in_idx,
        features=random.normal(size=(nodes, FEATURES)).astype(np.float32),
        labels=random.integers(0, CLASSES, nodes),
        split=np.zeros(nodes, dtype=np.uint8),
        num_classes=CLASSES,
    )


def edges_of(graph: Graph) -> Tensor:
    """(2, E): from the member of a list to its owner, who receives."""
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    return torch.from_numpy(np.stack([graph.out_idx.astype(np.int64), owners]))


def network_of(kind: str, hops: int, activation: str = "tanh", seed: int = 0) -> Network:
    """Every parameter is far from its initial value: biases and epsilon of 0 would hide mistakes in them."""
    model = Model(
        architecture=kind, hops=hops, encoder_layers=1, decoder_layers=2, width=6, heads=3, activation=activation
    )
    generator = torch_generator("init", seed)
    network = Network(model, FEATURES, CLASSES, generator, torch.float64)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return network


@pytest.mark.parametrize(("kind", "hops"), KINDS)
@settings(max_examples=15, deadline=None)
@given(nodes=st.integers(1, 12), density=st.sampled_from([0.0, 0.2, 0.7]), seed=st.integers(0, 10**6))
def test_logits_and_gradients_of_message_passing(kind, hops, nodes, density, seed):
    graph, network = random_graph(nodes, density, seed), network_of(kind, hops, seed=seed)
    features, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
    before = [parameter.clone() for parameter in network.parameters()]
    expected = pyg_logits(network, features, edges_of(graph))
    assert all(map(torch.equal, network.parameters(), before))
    torch.testing.assert_close(FullGraph(graph, chunk_rows=5).logits(network, features), expected.detach(), **TOLERANCE)
    roots = np.arange(nodes)
    trees = pack_ego_trees(full_edge_lists(graph, roots), roots, hops)
    actual = network(trees.batch(roots), features)
    torch.testing.assert_close(actual, expected, **TOLERANCE)
    parameters = list(network.parameters())
    losses = [nn.functional.cross_entropy(logits, labels) for logits in (actual, expected)]
    ours, theirs = (torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in losses)
    torch.testing.assert_close(ours, theirs, **TOLERANCE)


@pytest.mark.parametrize(("kind", "hops"), KINDS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_clipped_sums_of_roots(kind, hops, activation):
    """Each root's gradient by differentiating PyTorch Geometric's logits; about half of them are clipped."""
    graph, network = random_graph(14, 0.25, 7), network_of(kind, hops, activation)
    features, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
    parameters = list(network.parameters())
    losses = nn.functional.cross_entropy(pyg_logits(network, features, edges_of(graph)), labels, reduction="none")
    gradients = [torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True) for loss in losses]
    norms = torch.stack([torch.cat([part.flatten() for part in one]).norm() for one in gradients])
    limit = float(norms.median())
    factors = (limit / norms).clamp(max=1)
    assert 0 < (factors < 1).sum() < len(factors)
    expected = [
        sum(factor * one for factor, one in zip(factors, parts, strict=True)) for parts in zip(*gradients, strict=True)
    ]
    roots = np.arange(graph.num_nodes)
    trees = pack_ego_trees(full_edge_lists(graph, roots), roots, hops, chunk_rows=40)
    result = clipped_gradient_sum(network, trees, roots, features, labels, limit)
    torch.testing.assert_close(result.norms[:, 0], norms, **TOLERANCE)
    torch.testing.assert_close(result.sums, expected, **TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(nodes=st.integers(1, 12), density=st.sampled_from([0.0, 0.2, 0.7]), seed=st.integers(0, 10**6))
def test_kipfs_network_is_gcnconv_twice(nodes, density, seed):
    """In float64, with PyTorch Geometric's normalisation as ours is stored: rounded to float32, which is checked."""
    graph = random_graph(nodes, density, seed, undirected=True)
    edges, features = edges_of(graph), torch.from_numpy(graph.features).double()
    network = KipfNetwork(FEATURES, 5, CLASSES, torch_generator("kipf", seed), torch.device("cpu")).double()
    theta = network.theta.data
    theta += 0.1 * torch.randn(theta.shape, generator=torch_generator("kipf", "moved", seed), dtype=torch.float64)
    block = GraphBlocks(graph, torch.device("cpu")).whole()

    closed, weights = gcn_norm(edges, None, nodes, add_self_loops=True, dtype=torch.float64)
    ours = block.outer.times(torch.eye(nodes, dtype=torch.float64))  # (owner, member)
    theirs = torch.zeros(nodes, nodes, dtype=torch.float64).index_put((closed[1], closed[0]), weights)
    torch.testing.assert_close(ours, theirs, rtol=3e-7, atol=0.0)
    rounded = ours[closed[1], closed[0]]

    leaf = theta.clone().requires_grad_()
    hidden = features
    for weight, bias in zip(*[iter(network.layers(leaf))] * 2, strict=True):
        convolution = GCNConv(*weight.shape, normalize=False).double()
        del convolution.lin.weight, convolution.bias  # ours are functions of `leaf`, no parameters
        convolution.lin.weight, convolution.bias = weight.T, bias
        hidden = torch.relu(hidden) if hidden is not features else hidden
        hidden = convolution(hidden, closed, rounded)
    torch.testing.assert_close(network.logits(block), hidden.detach(), **TOLERANCE)
    loss = nn.functional.cross_entropy(hidden, torch.from_numpy(graph.labels))
    (expected,) = torch.autograd.grad(loss, leaf)
    found = torch.zeros_like(theta)
    network.gradient(Read(block), found)
    torch.testing.assert_close(found, expected, **TOLERANCE)


@pytest.mark.parametrize("steps", [0, 1, 10])
@pytest.mark.parametrize("teleport", [0.1, 1.0])
def test_power_iteration_is_appnp_by_rows(steps, teleport):
    """APPNP with D^-1 A in place of its own normalisation, and a loop on each node without neighbours."""
    graph = random_graph(20, 0.06, 1)
    nodes = graph.num_nodes
    model = Model(architecture="mlp", hops=0, width=6, decoder_layers=2)
    network = Network(model, FEATURES, CLASSES, torch_generator("init"), torch.float64)
    features = torch.from_numpy(graph.features).double()
    edges = to_undirected(edges_of(graph), num_nodes=nodes)
    alone = torch.nonzero(degree(edges[1], nodes) == 0).flatten()
    assert 0 < len(alone) < nodes
    edges = torch.cat([edges, alone.repeat(2, 1)], dim=1)
    weights = 1 / degree(edges[1], nodes, dtype=torch.float64)[edges[1]]
    spread = APPNP(steps, teleport, add_self_loops=False, normalize=False)
    expected = spread(network.decoder(network.encoder(features)), edges, weights).detach()
    actual = PowerIteration(graph, steps, teleport).logits(network, features)
    torch.testing.assert_close(actual, expected, **TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(
    nodes=st.integers(1, 12),
    density=st.sampled_from([0.0, 0.2, 0.7]),
    heads=st.integers(1, 3),
    output_heads=st.integers(1, 2),
    seed=st.integers(0, 10**6),
)
def test_the_literature_s_attention_by_dense_matrices(nodes, density, heads, output_heads, seed):
    """Its layers are PyTorch Geometric's: here Eq. 3 to 6 of Velickovic et al. are written out."""
    graph = random_graph(nodes, density, seed, undirected=True)
    features, edges = torch.from_numpy(graph.features).double(), edges_of(graph)
    sizes = (FEATURES, 2, heads, output_heads, CLASSES)
    network = AttentionNetwork(*sizes, torch_generator("gat", seed), Dropout(0.0)).double()
    with torch.no_grad():
        network.first.bias += 0.3
    closed = torch.eye(nodes, dtype=torch.bool)
    closed[edges[1], edges[0]] = True
    rows = features
    for layer, mean in ((network.first, False), (network.second, True)):
        states = (rows @ layer.weight).view(nodes, layer.heads, -1)
        own, other = ((states * part).sum(2) for part in (layer.att_dst, layer.att_src))
        scores = nn.functional.leaky_relu(own[:, None] + other[None], 0.2)  # (reader, read, heads)
        weights = torch.softmax(scores.masked_fill(~closed[:, :, None], -torch.inf), dim=1)
        received = torch.einsum("urh,rhd->uhd", weights, states)
        rows = (received.mean(1) if mean else received.flatten(1)) + layer.bias
        rows = rows if mean else nn.functional.elu(rows)
    lists = closed_edges(graph, torch.device("cpu"))
    found = network(features, lists)
    torch.testing.assert_close(found, rows, **TOLERANCE)
    words = Bags.from_csr(Csr.from_scipy(sp.csr_matrix(features.numpy())), torch.device("cpu"))
    torch.testing.assert_close(network(features, lists, words), rows, **TOLERANCE)
    parameters, weights = list(network.parameters()), torch.from_numpy(graph.features[:, :CLASSES]).double()
    ours = torch.autograd.grad((found * weights).sum(), parameters, retain_graph=True)
    theirs = torch.autograd.grad((rows * weights).sum(), parameters)
    torch.testing.assert_close(ours, theirs, **TOLERANCE)


def test_attention_drops_inputs_and_weights_by_its_own_generator():
    graph = random_graph(12, 0.4, 3, undirected=True)
    features, lists = torch.from_numpy(graph.features), closed_edges(graph, torch.device("cpu"))

    def network(rate: float) -> AttentionNetwork:
        drop = Dropout(rate, torch_generator("gat", "masks"))
        return AttentionNetwork(FEATURES, 3, 2, 1, CLASSES, torch_generator("gat"), drop)

    before = torch.random.get_rng_state()
    one, other, plain = network(0.5), network(0.5), network(0.0)
    first, second = one(features, lists), one(features, lists)
    assert not torch.equal(first, second)
    assert torch.equal(first, other(features, lists))
    assert torch.equal(one.eval()(features, lists), plain(features, lists))
    assert torch.equal(torch.random.get_rng_state(), before)
