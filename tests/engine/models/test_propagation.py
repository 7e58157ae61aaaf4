from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Model
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.propagation import PowerIteration

NODES = 20


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Directed lists, some one-way; the last two nodes are in no list and have none."""
    rng = np.random.default_rng(4)
    dense = rng.random((NODES, NODES)) < 0.15
    np.fill_diagonal(dense, False)
    dense[-2:], dense[:, -2:] = False, False
    ptr = np.concatenate([[0], np.cumsum(dense.sum(1))])
    idx = np.nonzero(dense)[1].astype(np.int32)
    transposed = np.nonzero(dense.T)[1].astype(np.int32)
    in_ptr = np.concatenate([[0], np.cumsum(dense.sum(0))])
    features = rng.standard_normal((NODES, 4)).astype(np.float32)
    nothing = np.zeros(NODES, dtype=np.int64)
    return Graph(
        name="toy",
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=in_ptr,
        in_idx=transposed,
        features=features,
        labels=nothing,
        split=nothing.astype(np.uint8),
        num_classes=3,
    )


def mlp(**changes) -> Network:
    model = Model(**{"architecture": "mlp", "hops": 0, "width": 6, "decoder_layers": 2} | changes)
    return Network(model, 4, 3, torch_generator("init"), torch.float64)


def dense_adjacency(graph: Graph) -> np.ndarray:
    dense = np.zeros((NODES, NODES))
    dense[np.repeat(np.arange(NODES), np.diff(graph.out_ptr)), graph.out_idx] = 1
    return np.maximum(dense, dense.T)


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
@pytest.mark.parametrize("teleport", [0.25, 1.0])
def test_dense_matrices_agree(graph, steps, teleport):
    network, features = mlp(), torch.from_numpy(graph.features).double()
    own = network.decoder(network.encoder(features)).detach().numpy()
    adjacency = dense_adjacency(graph)
    degree = adjacency.sum(1)
    expected = own.copy()
    for _ in range(steps):
        expected = (1 - teleport) * (adjacency @ expected) / np.maximum(degree, 1)[:, None] + teleport * own
        expected[degree == 0] = own[degree == 0]
    assert (degree == 0).sum() == 2
    actual = PowerIteration(graph, steps, teleport).logits(network, features)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_no_step_gives_each_nodes_own_logits(graph):
    network, features = mlp(), torch.from_numpy(graph.features).double()
    actual = PowerIteration(graph, 0, 0.25).logits(network, features)
    assert torch.equal(actual, FullGraph(graph).logits(network, features))
    assert not actual.requires_grad


def test_dropout_is_off_and_the_mode_of_the_network_stays(graph):
    network = mlp(dropout=0.5).train()
    features = torch.from_numpy(graph.features).double()
    inference = PowerIteration(graph, 2, 0.25)
    assert torch.equal(inference.logits(network, features), inference.logits(network.eval(), features))
    network.train()
    inference.logits(network, features)
    assert network.training


def test_errors(graph):
    with pytest.raises(UserError, match=r"^steps=-1: expected an integer >= 0$"):
        PowerIteration(graph, -1, 0.25)
    with pytest.raises(UserError, match=r"^teleport=0: expected a number in \(0, 1\]$"):
        PowerIteration(graph, 2, 0)
    network = mlp(architecture="gcn", hops=1)
    with pytest.raises(UserError, match=r"^hops=1: expected 0: power iteration spreads the logits of an MLP$"):
        PowerIteration(graph, 2, 0.25).logits(network, torch.from_numpy(graph.features).double())
