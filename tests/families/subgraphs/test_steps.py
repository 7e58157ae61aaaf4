"""Steps of Kipf's GCN: what is clipped, noise, optimisers, the cache of blocks."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Training
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork, Read
from dpgraph.engine.sampling.batches import nodes_in_use
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.subgraphs.steps import (
    BlockCache,
    FixedParts,
    FreshNodes,
    GraphSource,
    KipfStep,
    NoSource,
    Privatizer,
    equal_parts,
    parts_by_id,
)
from dpgraph.privacy.public_numbers import nodes_with_loss
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


TRAIN = np.sort(numpy_generator("train nodes").choice(200, 90, replace=False))


def used(share, train=TRAIN):
    return nodes_in_use(train, 200, nodes_with_loss(num_train=len(train), train_share=share), numpy_generator("share"))


def test_shares_are_nested_and_exact():
    samples = [used(share) for share in (0.1, 0.2, 0.5, 1.0)]
    assert [len(nodes) for nodes in samples] == [9, 18, 45, 90]
    for smaller, larger in pairwise(samples):
        assert set(smaller) < set(larger)
        assert (np.diff(smaller) > 0).all()
    assert len(used(1e-6)) == 1
    assert not np.array_equal(used(0.5), nodes_in_use(TRAIN, 200, 45, numpy_generator("another seed")))


def test_equal_parts_are_a_partition():
    parts = equal_parts(TRAIN, 7, numpy_generator("parts"))
    assert sorted(len(part) for part in parts) == [12] * 1 + [13] * 6
    assert np.array_equal(np.sort(np.concatenate(parts)), TRAIN)
    assert all((np.diff(part) > 0).all() for part in parts)


def test_the_part_of_an_id_does_not_depend_on_other_nodes():
    whole = parts_by_id(TRAIN, 200, 7, numpy_generator("parts"))
    assert np.array_equal(np.sort(np.concatenate(whole)), TRAIN)
    for gone in TRAIN[::9]:
        left = parts_by_id(TRAIN[gone != TRAIN], 200, 7, numpy_generator("parts"))
        assert all(np.array_equal(a[a != gone], b) for a, b in zip(whole, left))
    moved = equal_parts(TRAIN[1:], 7, numpy_generator("parts"))
    assert any(
        not np.array_equal(a[a != TRAIN[0]], b) for a, b in zip(equal_parts(TRAIN, 7, numpy_generator("parts")), moved)
    )


def test_every_epoch_visits_each_part_once_in_its_own_order():
    parts = [np.array([index]) for index in range(5)]
    schedule = FixedParts(parts, ("orders", 3))
    visits = [int(schedule.nodes(step)[0]) for step in range(50)]
    epochs = [tuple(visits[first : first + 5]) for first in range(0, 50, 5)]
    assert all(sorted(epoch) == list(range(5)) for epoch in epochs)
    assert len(set(epochs)) > 5
    resumed = FixedParts(parts, ("orders", 3))
    assert [int(resumed.nodes(step)[0]) for step in (17, 18, 33)] == [visits[17], visits[18], visits[33]]


def test_fresh_nodes_are_a_poisson_sample():
    schedule = FreshNodes(TRAIN, 0.2, numpy_generator("fresh"))
    draws = [schedule.nodes(step) for step in range(2000)]
    counts = np.bincount(np.concatenate(draws), minlength=200)
    assert not counts[np.setdiff1d(np.arange(200), TRAIN)].any()
    assert counts[TRAIN] / 2000 == pytest.approx(0.2, abs=0.05)
    sizes = np.array([len(draw) for draw in draws])
    assert sizes.var() == pytest.approx(90 * 0.2 * 0.8, rel=0.15)
    assert (np.diff(draws[0]) > 0).all()
    assert np.array_equal(FreshNodes(TRAIN, 1.0, numpy_generator("all")).nodes(0), TRAIN)


@pytest.mark.parametrize("value", [0.5, 0.7331, 0.9])
def test_a_gradient_of_many_equal_numbers_stays_within_the_clip_norm(value):
    """Summed in float32 the squares of 1.7 million equal numbers are off by a third of a percent."""
    gradient = torch.full((6805 * 256,), value)
    Privatizer(1.0, None, len(gradient), gradient)._clip(gradient)
    assert 0.999998 < gradient.double().norm() <= 1


@pytest.mark.parametrize("clip_norm", [1.0, 1e-4])
@pytest.mark.parametrize("value", [1.4e38, 3.0e38])
def test_a_gradient_whose_factor_is_subnormal_contributes_nothing(value, clip_norm):
    """Numbers of few digits: a million entries of 1.4e38 were scaled to 1.96 C for C = 1e-4."""
    gradient = torch.full((10**6,), value)
    Privatizer(clip_norm, None, len(gradient), gradient)._clip(gradient)
    assert not gradient.any()
    near = torch.full((10**6,), 1e34 * clip_norm)
    Privatizer(clip_norm, None, len(near), near)._clip(near)
    assert 0.999998 < near.double().norm() / clip_norm <= 1
