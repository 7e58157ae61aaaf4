from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgraph.data.graph import Graph
from dpgraph.experiments.cell import Model
from dpgraph.models.inference import FullGraph
from dpgraph.models.network import Network
from dpgraph.randomness import torch_generator
from dpgraph.sampling.edge_lists import full_edge_lists
from dpgraph.sampling.ego import pack_ego_trees


def network_of(
    hops: int, n_enc: int = 1, n_dec: int = 1, width: int = 6, dtype=torch.float64, seed: int = 0
) -> Network:
    model = Model(
        architecture="gcn" if hops else "mlp", hops=hops, encoder_layers=n_enc, decoder_layers=n_dec, width=width
    )
    return Network(model, 4, 3, torch_generator("init", seed), dtype)


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
        "toy",
        ptr,
        member.astype(np.int32),
        np.zeros(n + 1, dtype=np.int64),
        empty,
        rng.standard_normal((n, 4)).astype(np.float32),
        rng.integers(0, 3, n),
        np.zeros(n, dtype=np.uint8),
        3,
    )


def dense_logits(network: Network, graph: Graph, features: torch.Tensor) -> torch.Tensor:
    """(d + I)^-1 (A + I) as a dense matrix (Daigavane et al., App. E)."""
    adjacency = torch.eye(graph.num_nodes, dtype=features.dtype)
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))
    adjacency[owner, graph.out_idx.astype(np.int64)] = 1
    adjacency /= adjacency.sum(1, keepdim=True)
    h = features
    for layer in network.encoder.layers:
        h = torch.tanh(layer(h))
    for layer in network.aggregation:
        m = adjacency @ h
        h = m + torch.tanh(layer.linear(m))
    *hidden, last = network.decoder.layers
    for layer in hidden:
        h = torch.tanh(layer(h))
    return last(h)


@pytest.mark.parametrize("hops", [0, 1, 2])
@pytest.mark.parametrize(("n_enc", "n_dec"), [(1, 1), (2, 2)])
def test_trees_full_graph_and_dense_matrix_agree(graph, hops, n_enc, n_dec):
    """With whole lists a tree of depth r holds everything that an r-layer network reads."""
    network = network_of(hops, n_enc, n_dec)
    features = torch.from_numpy(graph.features).double()
    expected = dense_logits(network, graph, features)
    for chunk_rows in (7, 30, 1000):
        actual = FullGraph(graph, chunk_rows=chunk_rows).logits(network, features)
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    nodes = np.arange(graph.num_nodes)
    trees = pack_ego_trees(full_edge_lists(graph, nodes), nodes, hops)
    actual = network(trees.batch(nodes[::-1]), features)
    torch.testing.assert_close(actual, expected.flip(0), rtol=1e-12, atol=1e-12)


def test_groups_cover_all_parameters_in_order():
    network = network_of(2, 2, 2)
    groups = network.groups
    assert list(groups) == ["encoder", "aggregation", "decoder"]
    assert [len(layers) for layers in groups.values()] == [2, 2, 2]
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
