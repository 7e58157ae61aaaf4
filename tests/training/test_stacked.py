"""Seeds side by side: clipping, noise, optimisers, early stopping, divergence."""

import math

import numpy as np
import pytest
import torch

from dpgraph.experiments.cell import Training
from dpgraph.models.kipf import GraphBlocks, KipfStack, Read
from dpgraph.randomness import torch_generator
from dpgraph.sampling.graph_splits import FixedParts
from dpgraph.training.loop import Diverged
from dpgraph.training.noise import GaussianNoise
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.stacked import (
    BlockCache,
    EarlyStopping,
    GraphSource,
    NoSource,
    Privatizer,
    SeedStates,
    StackedStep,
)
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
GRAPH = toy_graph()
BLOCKS = GraphBlocks(GRAPH, CPU)


def states_of(seeds, width=8):
    return SeedStates(KipfStack(5, width, 3, [torch_generator("stack", seed) for seed in seeds], CPU))


def source_of(seeds, splits=1):
    nodes = GRAPH.train_nodes
    schedules = [FixedParts(np.array_split(nodes, splits), ("orders", seed)) for seed in seeds]
    return GraphSource(schedules, BlockCache(BLOCKS.masked).of)


def step_of(
    states, seeds, splits=1, privatizer=None, stopping=None, source=None, dropout=0.5, weight_decay=0.0, **training
):
    settings = Training(**{"learning_rate": 0.1, "steps": 1, "optimizer": "sgd", **training})
    generators = [torch_generator("dropout", seed) for seed in seeds]
    optimizer = make_optimizer([states.network.theta], settings, fused=True, weight_decay=weight_decay)
    read = source or source_of(seeds, splits)
    return StackedStep(states, optimizer, read, dropout, generators, privatizer, stopping)


def privatizer_of(states, clip, std, *names):
    noises = [GaussianNoise(std, torch_generator("noise", seed, *names)) for seed in range(states.network.num_seeds)]
    return Privatizer(clip, noises, states.network.size, torch.zeros_like(states.network.theta.data))


def test_all_parameters_are_clipped_as_one_vector():
    states = states_of(range(3))
    step = step_of(states, range(3), privatizer=privatizer_of(states, 1e-3, 0.0))
    step()
    assert step.gradients.norm(dim=1).tolist() == pytest.approx([1e-3] * 3, rel=1e-5)
    raw = step_of(states_of(range(3)), range(3), privatizer=privatizer_of(states, 1e6, 0.0))
    raw()
    directions = torch.nn.functional.cosine_similarity(raw.gradients, step.gradients, dim=1)
    assert directions.tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    for row in raw.gradients:
        assert all(part.any() for part in states.network.layers(row))


def test_the_gradient_of_each_node_is_clipped():
    """Their sum is divided by the public number; where nothing is cut, it is the gradient of the mean loss."""
    noises = [GaussianNoise(0.0, torch_generator("noise", seed)) for seed in range(2)]
    nodes, found = len(GRAPH.train_nodes), []
    for clip_norm in (1e-3, 1e6):
        states = states_of(range(2))
        zeros = torch.zeros_like(states.network.theta.data)
        privatizer = Privatizer(clip_norm, noises, states.network.size, zeros, each_node=True, divisor=float(nodes))
        step = step_of(states, range(2), privatizer=privatizer, dropout=0.0)
        step()
        found.append(step.gradients.clone())
    mean = step_of(states_of(range(2)), range(2), dropout=0.0)
    mean()
    assert torch.allclose(found[1], mean.gradients, atol=1e-6)
    network, sums = states_of(range(2)).network, torch.zeros_like(found[0])
    for node in GRAPH.train_nodes:
        one = torch.zeros_like(sums)
        block = BLOCKS.masked(np.array([node]))
        network.gradients({0: Read(block), 1: Read(block)}, one)
        sums += one / one.norm(dim=1, keepdim=True) * 1e-3 / nodes
    assert torch.allclose(found[0], sums, rtol=1e-4, atol=1e-9)


def test_noise_of_single_nodes_is_divided_too():
    gradients = torch.zeros(1, 64)
    noise = GaussianNoise(3.0, torch_generator("noise", 0))
    Privatizer(0.5, [noise], 64, torch.zeros_like(gradients), each_node=True, divisor=10.0).apply(gradients)
    assert gradients.std() == pytest.approx(0.3, rel=0.3)


def test_noise_has_the_stated_std_and_seeds_their_own():
    states = states_of(range(4), width=300)
    privatizer = privatizer_of(states, 0.5, 3.0)
    draws = []
    for _ in range(20):
        gradients = torch.zeros_like(states.network.theta.data)
        privatizer.apply(gradients)
        assert not gradients[:, states.network.size :].any()
        draws.append(gradients[:, : states.network.size].clone())
    values = torch.stack(draws, dim=1)  # (S, draws, P)
    count = values[0].numel()
    for row in values:
        assert row.mean() == pytest.approx(0, abs=5 * 3 / math.sqrt(count))
        assert row.std() == pytest.approx(3, rel=5 / math.sqrt(2 * count))
    assert abs(torch.corrcoef(values.flatten(1)).fill_diagonal_(0)).max() < 5 / math.sqrt(count)


def test_nothing_read_is_noise_alone():
    states = states_of(range(2))
    step = step_of(states, range(2), source=NoSource(), privatizer=privatizer_of(states, 1.0, 2.0))
    before = states.network.theta.data.clone()
    assert step() == 0
    expected = torch.zeros_like(before)
    privatizer_of(states, 1.0, 2.0).apply(expected)
    assert torch.equal(states.network.theta.data, before.add(expected, alpha=-0.1))


@pytest.mark.parametrize(
    "training",
    [
        {"optimizer": "sgd"},
        {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01},
        {"optimizer": "adam", "weight_decay": 0.01},
    ],
)
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("width", [8, 32])
def test_a_seed_has_the_same_bits_alone_and_in_company(training, splits, private, width):
    def trained(seeds):
        states = states_of(seeds, width)
        privatizer = None
        if private:
            noises = [GaussianNoise(0.1, torch_generator("noise", seed)) for seed in seeds]
            scratch = torch.zeros_like(states.network.theta.data)
            privatizer = Privatizer(0.5, noises, states.network.size, scratch)
        step = step_of(states, seeds, splits, privatizer, **training)
        for _ in range(20):
            step()
        return states.network.theta.data

    together = trained(range(3))
    for seed in range(3):
        assert torch.equal(trained([seed])[0], together[seed])


@pytest.mark.parametrize("settings", [{"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"}])
def test_steps_are_those_of_torch(settings):
    """Plain training against autograd and torch.optim, weight decay and momentum included."""
    states = states_of([0])
    step = step_of(states, [0], dropout=0.0, weight_decay=0.1, **settings)
    theta = torch.nn.Parameter(states.network.theta.data[0].clone())
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
        w1, b1, w2, b2 = states.network.layers(theta)
        logits = matrix @ torch.relu(matrix @ features @ w1 + b1) @ w2 + b2
        nodes = GRAPH.train_nodes
        torch.nn.functional.cross_entropy(logits[nodes], labels[nodes]).backward()
        optimizer.step()
    assert torch.allclose(theta.data, states.network.theta.data[0], atol=1e-5)


def stopped_run(seeds, patience=3, steps=400):
    states = states_of(seeds)
    validation = BLOCKS.masked(GRAPH.nodes_of("val"))
    stopping = EarlyStopping(states, validation, patience, 2)
    step = step_of(states, seeds, 2, stopping=stopping, learning_rate=0.5)
    losses = []
    for done in range(1, steps + 1):
        step()
        losses.append(states.network.losses(list(states.network.theta.data), validation).tolist())
        if done % 50 == 0:
            step.check(done)
    return states, np.array(losses)[1::2]  # at the end of each epoch of two steps


def test_each_seed_stops_by_itself_and_keeps_its_parameters():
    states, losses = stopped_run(range(3))
    assert len(set(states.stopped_at.tolist())) > 1
    for seed, at in enumerate(states.stopped_at.tolist()):
        assert at % 2 == 0
        history = losses[: at // 2, seed]
        waits = [epoch - int(np.argmin(history[: epoch + 1])) for epoch in range(len(history))]
        assert waits[-1] == 3
        assert max(waits[:-1]) < 3
        alone, _ = stopped_run([seed])
        assert alone.stopped_at.tolist() == [at]
        assert torch.equal(alone.released()[0], states.released()[seed])
        assert not torch.equal(states.released()[seed], states.network.theta.data[seed])


def test_a_seed_that_diverges_fails_alone():
    states = states_of(range(3))
    step = step_of(states, range(3))
    step()
    step.check(1)
    reference = step_of(alone := states_of([0]), [0])
    reference()
    with torch.no_grad():
        states.network.theta[1, 0] = math.inf
    step()
    step.check(2)
    assert states.diverged_at.tolist() == [0, 2, 0]
    assert step.running == [0, 2]
    reference()
    assert torch.equal(states.network.theta.data[0], alone.network.theta.data[0])
    with torch.no_grad():
        states.network.theta[:] = math.nan
    with pytest.raises(Diverged, match="after step 7"):
        step.check(7)
    assert states.diverged_at.tolist() == [7, 2, 7]


def test_blocks_are_built_once_within_the_limit():
    built = []

    def build(nodes):
        built.append(len(nodes))
        return BLOCKS.masked(nodes)

    first, second = np.arange(5), np.arange(9)
    size = BLOCKS.masked(first).nbytes
    cache = BlockCache(build, limit=size)
    assert cache.of(first) is cache.of(first.copy())
    assert cache.of(second) is not cache.of(second)
    assert built == [5, 9, 9]
    assert cache.held == size


@pytest.mark.parametrize("broken", [math.inf, -math.inf, math.nan])
def test_a_gradient_that_is_not_finite_stays_within_the_clip_norm(broken):
    gradients = torch.tensor([[3.0, 4.0, 0.0], [1.0, broken, 2.0]])
    noises = [GaussianNoise(0.0, torch.Generator()) for _ in range(2)]
    Privatizer(0.5, noises, 3, torch.zeros_like(gradients)).apply(gradients)
    assert [noise.draws for noise in noises] == [1, 1]
    assert torch.allclose(gradients[0], torch.tensor([0.3, 0.4, 0.0]))
    assert (gradients[1] == 0).all()
