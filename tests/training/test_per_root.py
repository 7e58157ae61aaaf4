"""Formed gradients of single roots: oracle of the ghost engine, and what runs where that engine knows no gradients."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from dpgraph.models import padded
from dpgraph.models.padded import padded_stacks
from dpgraph.sampling.edge_lists import empty_edge_lists, full_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.training import clipping, per_root
from dpgraph.training.clipping import clipped_gradient_sum, gradient_norms, neighbour_losses, root_losses
from dpgraph.training.per_root import formed_gradients

NETWORKS = [("mlp", 0), ("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2)]


@pytest.fixture
def setting(graph, make_network):
    def make(kind, hops, dtype=torch.float64):
        network = make_network(hops, 2, 2, "tanh", dtype, kind)
        trees = pack_ego_trees(full_edge_lists(graph, graph.train_nodes), graph.train_nodes, hops, chunk_rows=64)
        positions = np.random.default_rng(hops).permutation(len(graph.train_nodes))[:30]
        return network, trees, positions, torch.from_numpy(graph.features).to(dtype), torch.from_numpy(graph.labels)

    return make


def formed(monkeypatch, *arguments, engine=clipped_gradient_sum, **more):
    """The same by formed gradients, with the fast engine out of reach."""
    with monkeypatch.context() as patch:
        patch.setattr(clipping, "LAYERS", ())
        patch.setattr(clipping, "Recorder", None)
        return engine(*arguments, **more)


def assert_same(actual, expected, tolerance=1e-12):
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance * max(1.0, e.abs().max().item()))


@pytest.mark.parametrize(
    ("kind", "hops", "losses"),
    [(*network, root_losses) for network in NETWORKS] + [(*network, neighbour_losses) for network in NETWORKS[1:]],
)
def test_both_engines_agree(setting, monkeypatch, kind, hops, losses):
    arguments = setting(kind, hops)
    norms = gradient_norms(*arguments, losses)
    assert_same([formed(monkeypatch, *arguments, losses, engine=gradient_norms)], [norms], 1e-7)
    clip = dict(zip(arguments[0].groups, norms.median(0).values.clamp_min(1e-3).tolist(), strict=True))
    for clips in (norms.norm(dim=1).median().item(), clip):
        fast = clipped_gradient_sum(*arguments, clips, losses)
        slow = formed(monkeypatch, *arguments, clips, losses)
        assert 0 < (fast.norms > (clips if isinstance(clips, float) else 1e-3)).sum() < fast.norms.numel() + 1
        assert_same(slow.sums, fast.sums, 1e-10)
        assert_same([slow.loss], [fast.loss])


@pytest.mark.parametrize(("kind", "hops"), [("gcn", 2), ("gat", 1)])
def test_the_size_of_stacks_is_memory_only(setting, monkeypatch, kind, hops):
    network, trees, positions, features, labels = setting(kind, hops)
    expected = formed(monkeypatch, network, trees, positions, features, labels, 0.3).sums
    monkeypatch.setattr(padded, "MOST_TREES", 1)
    assert_same(formed(monkeypatch, network, trees, positions, features, labels, 0.3).sums, expected)


def test_stacks_hold_every_root_once_and_are_bounded(setting):
    _, trees, positions, _, _ = setting("gcn", 2)
    stacks = list(padded_stacks(trees, positions, torch.float64))
    assert sorted(np.concatenate([places for places, _ in stacks])) == list(range(len(positions)))
    sizes = trees.tree_sizes[positions]
    for places, stack in stacks:
        assert len(places) <= padded.MOST_TREES
        assert stack.nodes.shape == (len(places), sizes[places].max())
        assert sizes[places].max() < 2 * sizes[places].min()
        assert len(places) == 1 or sizes[places].sum() <= 2 * trees.chunk_rows
    assert list(padded_stacks(trees, positions[:0], torch.float64)) == []


class Scaled(torch.nn.Module):
    """A layer that the fast engine does not know: s * layer(x) + x^2 @ m, as the last of a network."""

    def __init__(self, inner, classes):
        super().__init__()
        self.inner = inner
        self.scale = torch.nn.Parameter(torch.full((), 1.3, dtype=torch.float64))
        self.matrix = torch.nn.Parameter(torch.full((inner.in_features, classes), 0.1, dtype=torch.float64))

    def forward(self, rows):
        return self.scale * self.inner(rows) + rows.square() @ self.matrix


@pytest.mark.parametrize(("kind", "hops"), [("gcn", 1), ("gat", 2)])
@pytest.mark.parametrize("losses", [root_losses, neighbour_losses])
def test_networks_with_unknown_layers_are_clipped_root_by_root(setting, kind, hops, losses):
    network, trees, positions, features, labels = setting(kind, hops)
    network.decoder.layers[-1] = Scaled(network.decoder.layers[-1], 3)
    parameters = list(network.parameters())
    gradients = []
    for position in positions:
        batch = trees.batch(np.array([position]))
        loss = losses(network, batch, features, labels, per_root.Unrecorded()).sum()
        each = torch.autograd.grad(loss, parameters, allow_unused=True)
        gradients.append([torch.zeros_like(p) if g is None else g for g, p in zip(each, parameters, strict=True)])
    norms = torch.stack([torch.cat([g.flatten() for g in each]).norm() for each in gradients])
    clip = norms.median().item()
    factors = (clip / norms.clamp_min(1e-12)).clamp_max(1)
    expected = [sum(f * each[i] for f, each in zip(factors, gradients, strict=True)) for i in range(len(parameters))]
    result = clipped_gradient_sum(network, trees, positions, features, labels, clip, losses)
    assert_same(result.sums, expected, 1e-10)
    torch.testing.assert_close(result.norms[:, 0], norms, rtol=1e-9, atol=1e-7)


def test_one_line_says_that_it_is_slow(setting, caplog):
    network, trees, positions, features, labels = setting("gcn", 1)
    per_root.announce.cache_clear()
    with caplog.at_level(logging.INFO, "dpgraph"):
        clipped_gradient_sum(network, trees, positions, features, labels, 1.0)
        assert not caplog.records
        network.decoder.layers.append(torch.nn.LayerNorm(3, dtype=torch.float64))
        for _ in range(2):
            clipped_gradient_sum(network, trees, positions, features, labels, 1.0)
    assert [record.message for record in caplog.records] == [
        "gradients of single roots are formed one by one, which is slow: LayerNorm is not supported by the fast engine"
    ]


def test_parameters_outside_groups_are_clipped_jointly_only(setting):
    network, trees, positions, features, labels = setting("gcn", 1)
    network.scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    result = clipped_gradient_sum(network, trees, positions, features, labels, 0.1)
    untouched = next(s for (name, _), s in zip(network.named_parameters(), result.sums, strict=True) if name == "scale")
    assert untouched == 0
    with pytest.raises(TypeError, match="layer of one parameter group"):
        clipped_gradient_sum(network, trees, positions, features, labels, dict.fromkeys(network.groups, 1.0))


@pytest.mark.parametrize(("kind", "hops"), NETWORKS)
def test_roots_without_finite_gradient_contribute_nothing(graph, setting, monkeypatch, kind, hops):
    """As with the fast engine: also where a poisoned root pads a stack of others."""
    network, trees, positions, features, labels = setting(kind, hops)
    features[graph.train_nodes[positions[3]]] = float("nan")
    fast = clipped_gradient_sum(network, trees, positions, features, labels, 0.5)
    slow = formed(monkeypatch, network, trees, positions, features, labels, 0.5)
    assert 0 < slow.dropped == fast.dropped < len(positions)
    assert_same(slow.sums, fast.sums, 1e-10)


def test_self_gradients_of_formed_trees_read_own_records_only(graph, setting):
    network, _, positions, features, labels = setting("gcn", 2)
    trees = pack_ego_trees(empty_edge_lists(graph), graph.train_nodes, 2)
    other = features.clone()
    other[np.setdiff1d(np.arange(graph.num_nodes), graph.train_nodes[positions])] = float("nan")
    for (_, by_layer, _), (_, again, _) in zip(
        formed_gradients(network, trees, positions, features, labels, root_losses),
        formed_gradients(network, trees, positions, other, labels, root_losses),
        strict=True,
    ):
        for module, gradients in by_layer.items():
            for parameter, values in gradients.gradients.items():
                assert torch.equal(values, again[module].gradients[parameter])
