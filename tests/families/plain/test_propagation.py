"""Neighbours without privacy, against dense matrices and by hand."""

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Model
from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, TRAIN
from dpgraph.engine.models.dense import apply_layer
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.propagation import Spreading
from dpgraph.families.jobs import make_jobs
from dpgraph.families.plain.train import Nodes, corrected, smoothed, spread_layers
from dpgraph.families.registry import method
from dpgraph.planning.resolve import calibrate
from dpgraph.privacy.cache import default_cache
from tests.contract.cells import CELLS, changed
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def toy():
    return toy_graph(24)


def dense(graph, own_edges):
    """D^-1/2 A D^-1/2 with the degrees of A, which may have the identity added."""
    size = graph.num_nodes
    adjacency = np.zeros((size, size))
    adjacency[np.repeat(np.arange(size), np.diff(graph.out_ptr)), graph.out_idx] = 1
    adjacency = np.maximum(adjacency, adjacency.T) + own_edges * np.eye(size)
    weights = 1 / np.sqrt(np.maximum(adjacency.sum(1), 1))
    return torch.from_numpy((weights[:, None] * adjacency * weights).astype(np.float32))


def job_of(graph, name, **parts):
    found = changed(f"{name}-none", **parts)
    (job,) = make_jobs(graph, found, [0], calibrate(found, len(graph.train_nodes), default_cache()), CPU)
    return job


@pytest.mark.parametrize("own_edges", [True, False])
def test_spreading_is_the_product_with_the_normalised_adjacency(toy, own_edges):
    spreading, matrix = Spreading(toy, CPU, own_edges), dense(toy, own_edges)
    rows = torch.randn(toy.num_nodes, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    wanted = rows
    for _ in range(3):
        wanted = 0.7 * matrix @ wanted + 0.3 * rows
    found = spreading.repeated(rows, 3, 0.3)
    assert torch.allclose(found, wanted, atol=1e-6)
    (by_hand,) = torch.autograd.grad((wanted**2).sum(), rows, retain_graph=True)
    (ours,) = torch.autograd.grad((found**2).sum(), rows)
    assert torch.allclose(ours, by_hand, atol=1e-4)


def test_impossible_settings_are_refused(toy):
    spreading, rows = Spreading(toy, CPU, own_edges=True), torch.zeros(toy.num_nodes, 2)
    with pytest.raises(UserError, match=r"^teleport=1\.5: expected a number in \[0, 1\]$"):
        spreading.repeated(rows, 1, 1.5)
    with pytest.raises(UserError, match=r"^steps=-1: expected an integer >= 0$"):
        spreading.repeated(rows, -1, 0.5)


def test_label_propagation_spreads_training_labels_only(toy):
    job = job_of(toy, "label-propagation", model={"spreading_steps": 7, "teleport": 0.2})
    labels = np.zeros((toy.num_nodes, 3), dtype=np.float32)
    train = np.flatnonzero(toy.split == TRAIN)
    labels[train, toy.labels[train]] = 1
    first, matrix = torch.from_numpy(labels), dense(toy, own_edges=False)
    wanted = first
    for _ in range(7):
        wanted = 0.8 * matrix @ wanted + 0.2 * first
    found = method("label-propagation").run(job, lambda step, logits: {}).logits
    reached = wanted.sum(1) > 0
    assert np.allclose(found[reached], wanted[reached], atol=1e-6)
    assert np.allclose(found[~reached], labels[train].mean(0) * len(train) / toy.num_nodes, atol=1e-6)


def test_sgc_is_softmax_regression_on_spread_records(toy):
    """Its logits are S^K X W + b: the same parameters on records that were spread before."""
    job, seen = job_of(toy, "sgc", model={"spreading_steps": 2}), []
    original = torch.optim.Optimizer.__init__

    def remember(self, params, defaults):
        original(self, params, defaults)
        seen.append([one for group in self.param_groups for one in group["params"]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Optimizer, "__init__", remember)
        logits = method("sgc").run(job, lambda step, logits: {}).logits
    weight, bias = seen[0]
    matrix = dense(toy, own_edges=True)
    spread = matrix @ matrix @ torch.from_numpy(toy.features)
    assert np.allclose(logits, (spread @ weight.T + bias).detach().numpy(), atol=1e-5)


def test_pmlp_passes_messages_in_every_layer(toy):
    model = Model(architecture="mlp", hops=0, width=5, encoder_layers=2)
    network = Network(model, 5, 3, torch.Generator().manual_seed(2))
    nodes, matrix = Nodes(job_of(toy, "pmlp"), own_edges=True), dense(toy, own_edges=True)
    rows = torch.from_numpy(toy.features)
    for layer in network.encoder.layers:
        rows = torch.tanh(matrix @ rows @ layer.weight.T + layer.bias)
    (last,) = network.decoder.layers
    wanted = matrix @ rows @ last.weight.T + last.bias
    with torch.no_grad():
        states = spread_layers(network.encoder, torch.from_numpy(toy.features), nodes, apply_layer)
        assert torch.allclose(spread_layers(network.decoder, states, nodes, apply_layer), wanted, atol=1e-5)


def test_pmlp_is_trained_as_a_perceptron(toy):
    """Edges do not reach its parameters: without any, predictions are those of the same training."""
    seen = []
    for name in ("pmlp", "correct-and-smooth"):
        job, kept = job_of(toy, name, model={"dropout": 0.0}, training={"learning_rate": 0.1}), []
        original = torch.optim.Optimizer.__init__

        def remember(self, params, defaults, original=original, kept=kept):
            original(self, params, defaults)
            kept.append([one for group in self.param_groups for one in group["params"]])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.optim.Optimizer, "__init__", remember)
            method(name).run(job, lambda step, logits: {})
        seen.append([one.detach().clone() for one in kept[0]])
    assert all(torch.equal(one, other) for one, other in zip(*seen, strict=True))


def test_correcting_and_smoothing_by_hand(toy):
    nodes, matrix = Nodes(job_of(toy, "correct-and-smooth"), own_edges=False), dense(toy, own_edges=False)
    model = CELLS["correct-and-smooth-none"].model.model_copy(update={"spreading_steps": 4})
    own = torch.softmax(torch.randn(toy.num_nodes, 3, generator=torch.Generator().manual_seed(3)), 1)
    train = torch.from_numpy(np.flatnonzero(toy.split == TRAIN))
    errors = torch.zeros_like(own)
    errors[train] = nodes.one_hot[train] - own[train]
    spread = errors
    for _ in range(4):
        spread = 0.9 * matrix @ spread + 0.1 * errors
    scale = errors[train].abs().sum(1).mean() / spread.abs().sum(1, keepdim=True).clamp_min(1e-30)
    better = own + scale * spread
    assert torch.allclose(corrected(own, nodes, model), better, atol=1e-5)
    better[train] = nodes.one_hot[train]
    wanted = better
    for _ in range(4):
        wanted = 0.8 * matrix @ wanted + 0.2 * better
    assert torch.allclose(smoothed(corrected(own, nodes, model), nodes, model), wanted, atol=1e-5)
    assert (toy.split == TEST).any()
