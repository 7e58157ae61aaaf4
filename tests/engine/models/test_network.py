from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Model
from dpgraph.core.randomness import torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.inference import FullGraph, PartOfGraph
from dpgraph.engine.models.message_passing import GatLayer, GinLayer
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.edge_lists import full_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees


def network_of(
    hops: int,
    n_enc: int = 1,
    n_dec: int = 1,
    width: int = 6,
    dtype=torch.float64,
    seed: int = 0,
    kind: str = "gcn",
    heads: int = 4,
) -> Network:
    model = Model(
        architecture=kind if hops else "mlp",
        hops=hops,
        encoder_layers=n_enc,
        decoder_layers=n_dec,
        width=width,
        heads=heads,
    )
    network = Network(model, 4, 3, torch_generator("init", seed), dtype)
    for name, parameter in network.named_parameters():
        if name.endswith("epsilon"):
            torch.nn.init.constant_(parameter, 0.3)
    return network


@pytest.fixture(scope="module")
def graph() -> Graph:
    rng = np.random.default_rng(0)
    n = 30
    dense = rng.random((n, n)) < 0.1
    np.fill_diagonal(dense, False)
    dense[0] = np.arange(n) != 0
    dense[-3:] = False
    member = np.nonzero(dense)[1]
    ptr = np.concatenate([[0], np.cumsum(dense.sum(1))])
    empty = np.zeros(0, dtype=np.int32)
    return Graph(
        name="toy",
        out_ptr=ptr,
        out_idx=member.astype(np.int32),
        in_ptr=np.zeros(n + 1, dtype=np.int64),
        in_idx=empty,
        features=rng.standard_normal((n, 4)).astype(np.float32),
        labels=rng.integers(0, 3, n),
        split=np.zeros(n, dtype=np.uint8),
        num_classes=3,
    )


def dense_logits(network: Network, graph: Graph, features: torch.Tensor) -> torch.Tensor:
    """Message passing with dense N x N matrices."""
    closed = torch.eye(graph.num_nodes, dtype=features.dtype)
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    closed[owner, graph.out_idx.astype(np.int64)] = 1
    h = features
    for layer in network.encoder.layers:
        h = torch.tanh(layer(h))
    for layer in network.aggregation:
        h = dense_update(layer, closed, h)
    *hidden, last = network.decoder.layers
    for layer in hidden:
        h = torch.tanh(layer(h))
    return last(h)


def dense_update(layer: torch.nn.Module, closed: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    if isinstance(layer, GinLayer):
        return torch.tanh(layer.linear(closed @ h + layer.self_weight.epsilon * h))
    if isinstance(layer, GatLayer):
        heads = layer.query.heads
        q, v = (
            m.weight.unflatten(0, (heads, -1)) @ h.T + m.bias.view(heads, -1, 1) for m in (layer.query, layer.value)
        )
        scores = q.mT @ layer.key.weight.unflatten(0, (heads, -1)) @ h.T / q.shape[1] ** 0.5
        weights = scores.masked_fill(closed == 0, float("-inf")).softmax(2)
        return torch.tanh(layer.output((weights @ v.mT).transpose(0, 1).flatten(1)))
    mean = closed @ h / closed.sum(1, keepdim=True)  # (d + I)^-1 (A + I): Daigavane et al., App. E
    return mean + torch.tanh(layer.linear(mean))


@pytest.mark.parametrize(
    ("kind", "hops"), [("mlp", 0), ("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2)]
)
@pytest.mark.parametrize(("n_enc", "n_dec"), [(1, 1), (2, 2)])
@pytest.mark.parametrize("density", [1.0, 0.0], ids=["dense", "sparse"], indirect=True)
@pytest.mark.usefixtures("density")
def test_trees_full_graph_and_dense_matrix_agree(graph, kind, hops, n_enc, n_dec):
    """With whole lists a tree of depth r holds everything that an r-layer network reads."""
    network = network_of(hops, n_enc, n_dec, kind=kind)
    features = torch.from_numpy(graph.features).double()
    expected = dense_logits(network, graph, features)
    for chunk_rows in (7, 30, 1000):
        predictor = FullGraph(graph, chunk_rows=chunk_rows)
        torch.testing.assert_close(predictor.logits(network, features), expected, rtol=1e-12, atol=1e-12)
        other = -features  # no longer the features of the call before
        torch.testing.assert_close(
            predictor.logits(network, other), dense_logits(network, graph, other), rtol=1e-12, atol=1e-12
        )
    nodes = np.arange(graph.num_nodes)
    trees = pack_ego_trees(full_edge_lists(graph, nodes), nodes, hops)
    actual = network(trees.batch(nodes[::-1]), features)
    torch.testing.assert_close(actual, expected.flip(0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
def test_own_logits_get_their_weight(graph, kind):
    network = network_of(2, kind=kind)
    features = torch.from_numpy(graph.features).double()
    nothing = {"out_ptr": np.zeros_like(graph.out_ptr), "out_idx": np.zeros(0, dtype=np.int32)}
    alone = dense_logits(network, replace(graph, **nothing), features)
    whole = dense_logits(network, graph, features)
    assert not torch.allclose(alone, whole)
    for weight in (0.25, 1.0):
        mixed = FullGraph(graph, own_weight=weight).logits(network, features)
        torch.testing.assert_close(mixed, weight * alone + (1 - weight) * whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weight", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
@pytest.mark.parametrize("hops", [0, 1, 2])
def test_logits_of_some_nodes_are_those_of_the_whole_graph(graph, hops, kind, weight):
    """From the nodes within so many hops: of nodes without a list themselves alone, of the hub of everybody."""
    network = network_of(hops, kind=kind)
    features = torch.from_numpy(graph.features).double()
    whole = FullGraph(graph, own_weight=weight).logits(network, features)
    read = set()
    for nodes in ([29, 28], [7, 3, 11], [0, 5], [12]):
        part = PartOfGraph(graph, np.array(nodes), hops, own_weight=weight)
        read.add(part._graph.num_nodes)
        torch.testing.assert_close(part.logits(network, features), whole[nodes], rtol=1e-12, atol=1e-12)
    assert min(read) < graph.num_nodes


def test_scores_of_any_size_give_finite_attention(graph):
    """Softmax after subtraction of the largest score: scores of 10^5 would overflow without."""
    network = network_of(2, kind="gat")
    with torch.no_grad():
        network.aggregation[0].query.weight *= 1e5
    features = torch.from_numpy(graph.features).double()
    expected = dense_logits(network, graph, features)
    assert torch.isfinite(expected).all()
    torch.testing.assert_close(FullGraph(graph).logits(network, features), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "heads", "head_width", "joint"), [(256, 10, 26, 260), (6, 4, 2, 8), (6, 3, 2, 6), (2, 5, 1, 5)]
)
def test_heads_have_the_width_rounded_up(width, heads, head_width, joint):
    layer = network_of(1, width=width, kind="gat", heads=heads).aggregation[0]
    assert layer.head_width == head_width
    assert [m.weight.shape for m in (layer.query, layer.key, layer.value)] == [(joint, width)] * 3
    assert layer.output.weight.shape == (width, joint)
    assert layer.key.bias is None


def test_epsilon_of_gin_starts_at_zero():
    network = Network(Model(architecture="gin"), 4, 3, torch_generator("init"))
    assert network.aggregation[0].self_weight.epsilon.item() == 0


def test_without_an_encoder_one_layer_is_softmax_regression(graph):
    model = Model(architecture="mlp", hops=0, encoder_layers=0, decoder_layers=1)
    network = Network(model, graph.num_features, 3, torch_generator("softmax"))
    (linear,) = network.decoder.layers
    assert list(network.groups) == ["decoder"]
    assert linear.weight.shape == (3, graph.num_features)
    with pytest.raises(ValueError, match="encoder_layers=0: expected at least 1 except for mlp"):
        Model(architecture="gcn", hops=1, encoder_layers=0)


@pytest.mark.parametrize(("kind", "layers"), [("gcn", 1), ("gin", 2), ("gat", 4)])
def test_groups_cover_all_parameters_in_order(kind, layers):
    network = network_of(2, 2, 2, kind=kind)
    groups = network.groups
    assert list(groups) == ["encoder", "aggregation", "decoder"]
    assert [len(layers) for layers in groups.values()] == [2, 2 * layers, 2]
    ordered = [id(p) for layers in groups.values() for layer in layers for p in layer.parameters()]
    assert ordered == [id(p) for p in network.parameters()]
    assert list(network_of(0).groups) == ["encoder", "decoder"]


def test_published_size():
    """n_enc = 1, r = 1, n_dec = 2 with 256 units on the 128 features and 40 classes of ogbn-arxiv."""
    network = Network(Model(decoder_layers=2), 128, 40, torch_generator("init"))
    assert sum(p.numel() for p in network.parameters()) == 174_888


def test_initialisation_is_lecun_normal():
    """Variance 1 / d_in, cut at two standard deviations of the underlying normal, biases 0."""
    network = network_of(1, 2, 2, width=400)
    for layers in network.groups.values():
        for layer in layers:
            assert torch.equal(layer.bias, torch.zeros_like(layer.bias))
    weight = network.aggregation[0].linear.weight
    n = weight.numel()
    assert weight.mean().abs() < 5 * 0.05 / n**0.5
    assert abs(weight.std().item() / 0.05 - 1) < 5 / (2 * n) ** 0.5
    assert weight.abs().max() <= 2 * 0.05 / 0.87962 + 1e-12
    assert weight.abs().max() > 0.11


def test_initialisation_depends_on_its_generator_only():
    before = torch.random.get_rng_state()
    a, b, c = network_of(1), network_of(1), network_of(1, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)  # the global generator is left alone
    same = zip(a.parameters(), b.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in same)
    assert not torch.equal(a.encoder.layers[0].weight, c.encoder.layers[0].weight)


def test_relu_differs_from_tanh():
    rows = torch.linspace(-2, 2, 8, dtype=torch.float64).reshape(2, 4)
    networks = [
        Network(Model(architecture="mlp", hops=0, activation=a), 4, 3, torch_generator("init"), torch.float64)
        for a in ("relu", "tanh")
    ]
    hidden = [network.encoder(rows) for network in networks]
    pre = networks[0].encoder.layers[0](rows)
    assert torch.equal(hidden[0], pre.clamp_min(0))
    assert torch.equal(hidden[1], pre.tanh())
