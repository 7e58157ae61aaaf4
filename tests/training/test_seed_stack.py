"""A stack of seeds against each seed alone."""

import numpy as np
import pytest
import torch

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Training
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.batches import PoissonSampler
from dpgraph.sampling.edge_lists import empty_edge_lists, sample_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.training import clipping
from dpgraph.training.clipping import clipped_gradient_sum, neighbour_losses, root_losses
from dpgraph.training.loop import Diverged
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.seed_stack import SeedStack, StackedPrivateStep, clipped_gradient_sums
from tests.training.steps import private_step, term_of
from tests.training.test_steps import SGD, WAITS, CalledOperators

SEEDS = range(3)
KINDS = [("mlp", 0), ("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2)]
every_kind = pytest.mark.parametrize(("kind", "hops"), KINDS)
ADAM = Training(optimizer="adam", learning_rate=0.05, steps=1)


def data(graph):
    return torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)


def networks_of(make_network, kind, hops):
    """Different parameters for each seed."""
    networks = [make_network(hops, 2, 2, architecture=kind) for _ in SEEDS]
    with torch.no_grad():
        for seed, network in enumerate(networks):
            for parameter in network.parameters():
                parameter.mul_(1 + 0.3 * seed)
    return networks


def terms_of(graph, hops, seed, residual=False, clip_norm=0.5, chunk_rows=None):
    roots = graph.train_nodes
    lists = sample_edge_lists(graph, roots, 4, numpy_generator("lists", seed)) if hops else empty_edge_lists(graph)
    trees = pack_ego_trees(lists, roots, hops, chunk_rows=chunk_rows)
    terms = [term_of(trees, PoissonSampler(len(roots), 0.5), clip_norm, root_losses)]
    if residual:
        alone = pack_ego_trees(empty_edge_lists(graph), roots, hops)
        own = term_of(alone, PoissonSampler(len(roots), 0.4), clip_norm)
        terms = [own, term_of(trees, PoissonSampler(len(roots), 0.2), 0.1, neighbour_losses)]
    return terms


def step_of(graph, network, optimizer, terms, seed):
    streams = numpy_generator("batches", seed), torch_generator("noise", seed)
    return private_step(network, optimizer, *data(graph), terms, 0.05, 9.0, *streams)


@every_kind
@pytest.mark.parametrize("chunk_rows", [7, None])
def test_sums_are_those_of_each_seed(graph, make_network, kind, hops, chunk_rows):
    networks = networks_of(make_network, kind, hops)
    for clip_norms in (0.3, {name: 0.1 * (1 + i) for i, name in enumerate(networks[0].groups)}):
        terms = [terms_of(graph, hops, seed, False, clip_norms, chunk_rows)[0] for seed in SEEDS]
        positions = [np.arange(seed, 45, seed + 1) for seed in SEEDS]
        clipped = clipped_gradient_sums(networks, terms, positions, *data(graph))
        for network, term, drawn, sums in zip(networks, terms, positions, clipped, strict=True):
            alone = clipped_gradient_sum(network, term.trees, drawn, *data(graph), clip_norms)
            for one, other in zip(sums, alone.sums, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_each_seed_has_its_own_clip_norms(graph, make_network):
    """The published variant clips at percentiles of each seed's own initial norms."""
    networks = networks_of(make_network, "gcn", 1)
    clip_norms = [dict.fromkeys(networks[0].groups, 0.01 * 10**seed) for seed in SEEDS]
    terms = [terms_of(graph, 1, seed, False, clip_norms[seed])[0] for seed in SEEDS]
    clipped = clipped_gradient_sums(networks, terms, [np.arange(45)] * 3, *data(graph))
    for network, term, sums in zip(networks, terms, clipped, strict=True):
        alone = clipped_gradient_sum(network, term.trees, np.arange(45), *data(graph), term.clip_norms)
        for one, other in zip(sums, alone.sums, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("kind", "hops", "residual"), [(*one, False) for one in KINDS] + [(*one, True) for one in KINDS if one[1]]
)
@pytest.mark.parametrize("training", [SGD, ADAM], ids=["sgd", "adam"])
def test_training_is_that_of_each_seed(graph, make_network, kind, hops, residual, training):
    """The same batches and the same noise, step after step."""
    together = networks_of(make_network, kind, hops)
    optimizer = make_optimizer([p for network in together for p in network.parameters()], training)
    parts = [step_of(graph, together[seed], optimizer, terms_of(graph, hops, seed, residual), seed) for seed in SEEDS]
    stacked = StackedPrivateStep(SeedStack(together), parts, optimizer)
    read = [stacked() for _ in range(4)]
    alone, expected = networks_of(make_network, kind, hops), np.zeros(4, dtype=int)
    for seed, network in enumerate(alone):
        step = step_of(
            graph, network, make_optimizer(network.parameters(), training), terms_of(graph, hops, seed, residual), seed
        )
        expected += [step() for _ in range(4)]
    assert read == expected.tolist()
    for one, other in zip(together, alone, strict=True):
        for p, q in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-10)


def test_a_seed_without_a_batch_still_gets_noise(graph, make_network):
    networks = networks_of(make_network, "gcn", 1)
    before = [[p.detach().clone() for p in network.parameters()] for network in networks]
    optimizer = make_optimizer([p for network in networks for p in network.parameters()], SGD)
    terms = [terms_of(graph, 1, seed)[0] for seed in SEEDS]
    terms[1] = term_of(terms[1].trees, PoissonSampler(45, 1e-9), 0.5)
    parts = [step_of(graph, networks[seed], optimizer, [terms[seed]], seed) for seed in SEEDS]
    StackedPrivateStep(SeedStack(networks), parts, optimizer)()
    for one, other in zip(before, networks, strict=True):
        assert all((a != b).all() for a, b in zip(one, other.parameters(), strict=True))


def test_a_seed_that_diverges_leaves_the_others_alone(graph, make_network):
    networks = networks_of(make_network, "gcn", 1)
    optimizer = make_optimizer([p for network in networks for p in network.parameters()], SGD)
    parts = [step_of(graph, networks[seed], optimizer, terms_of(graph, 1, seed), seed) for seed in SEEDS]
    stack = SeedStack(networks)
    step = StackedPrivateStep(stack, parts, optimizer)
    step()
    with torch.no_grad():
        next(networks[1].parameters()).fill_(float("nan"))
    step()
    step.check(2)
    step()
    assert stack.diverged_at.tolist() == [0, 2, 0]
    assert stack.sound == [0, 2]
    alone = networks_of(make_network, "gcn", 1)[2]
    by_itself = step_of(graph, alone, make_optimizer(alone.parameters(), SGD), terms_of(graph, 1, 2), 2)
    for _ in range(3):
        by_itself()
    for p, q in zip(networks[2].parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-11)
    with torch.no_grad():
        for network in networks:
            next(network.parameters()).fill_(float("inf"))
    with pytest.raises(Diverged, match="step 3"):
        step.check(3)
    assert stack.diverged_at.tolist() == [3, 2, 3]


def test_a_root_without_finite_gradient_adds_nothing(graph, make_network):
    networks = networks_of(make_network, "gcn", 1)
    features, labels = data(graph)
    terms = [terms_of(graph, 1, seed)[0] for seed in SEEDS]
    lost = int(terms[0].trees.batch(np.array([4])).roots[0])
    features[lost] = float("inf")
    clipped = clipped_gradient_sums(networks, terms, [np.arange(45)] * 3, features, labels)
    for network, term, sums in zip(networks, terms, clipped, strict=True):
        alone = clipped_gradient_sum(network, term.trees, np.arange(45), features, labels, term.clip_norms)
        assert int(alone.dropped) > 0
        for one, other in zip(sums, alone.sums, strict=True):
            assert torch.isfinite(one).all()
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


@every_kind
def test_stacked_steps_do_not_wait_for_the_device(graph, make_network, kind, hops, monkeypatch):
    monkeypatch.setattr(clipping, "_may_lose", lambda finite: True)
    networks = networks_of(make_network, kind, hops)
    optimizer = make_optimizer([p for network in networks for p in network.parameters()], SGD)
    parts = [step_of(graph, networks[seed], optimizer, terms_of(graph, hops, seed, hops > 0), seed) for seed in SEEDS]
    step = StackedPrivateStep(SeedStack(networks), parts, optimizer)
    step()  # looks once which seeds run
    with CalledOperators() as called:
        step()
    assert "mm" in called.names or "addmm" in called.names
    assert not called.names & WAITS


def test_clip_norms_are_checked(graph, make_network):
    networks = networks_of(make_network, "gcn", 1)
    terms = [terms_of(graph, 1, seed, False, 0.0)[0] for seed in SEEDS]
    with pytest.raises(UserError, match=r"clip_norm=0\.0: expected a finite number > 0"):
        clipped_gradient_sums(networks, terms, [np.arange(5)] * 3, *data(graph))
