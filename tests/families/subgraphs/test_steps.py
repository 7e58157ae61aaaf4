"""Steps of Kipf's GCN: what is clipped, noise, optimisers, the cache of blocks."""

import math

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Training
from dpgraph.core.randomness import torch_generator
from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork, Read
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.subgraphs.steps import BlockCache, FixedParts, GraphSource, KipfStep, NoSource, Privatizer
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
GRAPH = toy_graph()
BLOCKS = GraphBlocks(GRAPH, CPU)


def network_of(width=8):
    return KipfNetwork(5, width, 3, torch_generator("kipf"), CPU)


def step_of(network, privatizer=None, source=None, dropout=0.5, weight_decay=0.0, **training):
    settings = Training(**{"learning_rate": 0.1, "steps": 1, "optimizer": "sgd", **training})
    optimizer = make_optimizer([network.theta], settings, fused=True, weight_decay=weight_decay)
    read = source or GraphSource(FixedParts([GRAPH.train_nodes], ("orders",)), BlockCache(BLOCKS.masked).block_of)
    return KipfStep(network, optimizer, read, dropout, torch_generator("dropout"), privatizer)


def privatizer_of(network, clip_norm, std, **more):
    noise = GaussianNoise(std, torch_generator("noise"))
    return Privatizer(clip_norm, noise, network.size, torch.zeros_like(network.theta.data), **more)


def test_all_parameters_are_clipped_as_one_vector():
    gradients = []
    for clip_norm in (1e-3, 1e6):
        network = network_of()
        step = step_of(network, privatizer_of(network, clip_norm, 0.0))
        step()
        gradients.append(step.gradient)
    clipped, raw = gradients
    assert float(clipped.norm()) == pytest.approx(1e-3, rel=1e-5)
    assert float(torch.nn.functional.cosine_similarity(raw, clipped, dim=0)) == pytest.approx(1.0, abs=1e-5)
    assert all(part.any() for part in network.layers(raw))


def test_the_gradient_of_each_node_is_clipped():
    """Their sum is divided by the public number; where nothing is cut, it is the gradient of the mean loss."""
    nodes, found = len(GRAPH.train_nodes), []
    for clip_norm in (1e-3, 1e6):
        network = network_of()
        privatizer = privatizer_of(network, clip_norm, 0.0, each_node=True, divisor=float(nodes))
        step = step_of(network, privatizer, dropout=0.0)
        step()
        found.append(step.gradient)
    mean = step_of(network_of(), dropout=0.0)
    mean()
    assert torch.allclose(found[1], mean.gradient, atol=1e-6)
    network, total = network_of(), torch.zeros_like(found[0])
    for node in GRAPH.train_nodes:
        one = torch.zeros_like(total)
        network.gradient(Read(BLOCKS.masked(np.array([node]))), one)
        total += one / one.norm() * 1e-3 / nodes
    assert torch.allclose(found[0], total, rtol=1e-4, atol=1e-9)


def test_noise_of_single_nodes_is_divided_too():
    gradient = torch.zeros(64)
    noise = GaussianNoise(3.0, torch_generator("noise", 0))
    Privatizer(0.5, noise, 64, torch.zeros_like(gradient), each_node=True, divisor=10.0).apply(gradient)
    assert gradient.std() == pytest.approx(0.3, rel=0.3)


def test_noise_has_the_stated_std():
    network = network_of(width=300)
    privatizer = privatizer_of(network, 0.5, 3.0)
    draws = []
    for _ in range(20):
        gradient = torch.zeros_like(network.theta.data)
        privatizer.apply(gradient)
        assert not gradient[network.size :].any()
        draws.append(gradient[: network.size].clone())
    values = torch.stack(draws)
    count = values.numel()
    assert values.mean() == pytest.approx(0, abs=5 * 3 / math.sqrt(count))
    assert values.std() == pytest.approx(3, rel=5 / math.sqrt(2 * count))
    assert abs(torch.corrcoef(values).fill_diagonal_(0)).max() < 5 / math.sqrt(network.size)


def test_nothing_read_is_noise_alone():
    network = network_of()
    before, expected = network.theta.data.clone(), torch.zeros_like(network.theta.data)
    assert step_of(network, privatizer_of(network, 1.0, 2.0), NoSource())() == 0
    privatizer_of(network, 1.0, 2.0).apply(expected)
    assert torch.equal(network.theta.data, before.add(expected, alpha=-0.1))


@pytest.mark.parametrize("settings", [{"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"}])
def test_steps_are_those_of_torch(settings):
    """Plain training against autograd and torch.optim, weight decay and momentum included."""
    network = network_of()
    step = step_of(network, dropout=0.0, weight_decay=0.1, **settings)
    theta = torch.nn.Parameter(network.theta.data.clone())
    optimizer = make_optimizer([theta], Training(learning_rate=0.1, steps=1, **settings), weight_decay=0.1)
    closed = np.zeros((60, 60))
    for node in range(60):
        closed[node, GRAPH.out_idx[GRAPH.out_ptr[node] : GRAPH.out_ptr[node + 1]]] = 1
    closed += np.eye(60)
    scale = closed.sum(1) ** -0.5
    matrix = torch.from_numpy((scale[:, None] * closed * scale).astype(np.float32))
    features, labels = torch.from_numpy(GRAPH.features), torch.from_numpy(GRAPH.labels)
    for _ in range(15):
        step()
        optimizer.zero_grad()
        w1, b1, w2, b2 = network.layers(theta)
        logits = matrix @ torch.relu(matrix @ features @ w1 + b1) @ w2 + b2
        nodes = GRAPH.train_nodes
        torch.nn.functional.cross_entropy(logits[nodes], labels[nodes]).backward()
        optimizer.step()
    assert torch.allclose(theta.data, network.theta.data, atol=1e-5)


def test_blocks_are_built_once_within_the_limit():
    built = []

    def build(nodes):
        built.append(len(nodes))
        return BLOCKS.masked(nodes)

    first, second = np.arange(5), np.arange(9)
    size = BLOCKS.masked(first).nbytes
    cache = BlockCache(build, limit=size)
    assert cache.block_of(first) is cache.block_of(first.copy())
    assert cache.block_of(second) is not cache.block_of(second)
    assert built == [5, 9, 9]
    assert cache.held == size


@pytest.mark.parametrize("broken", [math.inf, -math.inf, math.nan])
def test_a_gradient_that_is_not_finite_stays_within_the_clip_norm(broken):
    for gradient, expected in (([3.0, 4.0, 0.0], [0.3, 0.4, 0.0]), ([1.0, broken, 2.0], [0.0, 0.0, 0.0])):
        noise, found = GaussianNoise(0.0, torch.Generator()), torch.tensor(gradient)
        Privatizer(0.5, noise, 3, torch.zeros_like(found)).apply(found)
        assert noise.draws == 1
        assert torch.allclose(found, torch.tensor(expected))
