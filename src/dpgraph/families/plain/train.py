"""Training of SGC, APPNP, PMLP, Correct and Smooth, label propagation and constant baselines, without privacy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.methods.assembly import Bench, SeedRun, fixed_size_sampler, on_device, run_loop, set_up, used_nodes
from dpgraph.engine.methods.base import Job, Observe, Outcome, constant_outcome
from dpgraph.engine.models.dense import Dense, Mlp
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.propagation import Spreading
from dpgraph.engine.models.sparse import reading
from dpgraph.engine.training.steps import BatchStep


class Nodes:
    """A graph on the device of a job: spreading, training nodes and their labels."""

    def __init__(self, job: Job, own_edges: bool) -> None:
        self.model, graph = job.cell.model, job.graph
        self.spreading = Spreading(graph, job.device, own_edges)
        labels = np.asarray(graph.labels, dtype=np.int64)
        known = graph.train_nodes[labels[graph.train_nodes] >= 0]
        self.roots = torch.from_numpy(known).to(job.device)
        self.labels = torch.from_numpy(labels[known]).to(job.device)
        self.num_nodes, self.num_classes = graph.num_nodes, graph.num_classes

    @cached_property
    def one_hot(self) -> Tensor:
        """(N, C) float32 labels of training nodes, zero elsewhere."""
        result = torch.zeros(self.num_nodes, self.num_classes, device=self.roots.device)
        result[self.roots, self.labels] = 1
        return result


class Logits(Protocol):
    """A function of a network and the records (N, F) of all nodes; returns (N, classes). `dense` applies layers."""

    def __call__(self, network: Network, features: Tensor, dense: Dense) -> Tensor: ...


@dataclass(frozen=True)
class UndroppedPredictor:
    """The predictor of a run, without dropout and without gradients."""

    compute: Callable[[Any, Tensor], Tensor]

    @torch.no_grad()
    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Return (N, classes) logits of all nodes."""
        mode = network.training
        network.eval()
        try:
            return self.compute(network, features)
        finally:
            network.train(mode)


def own_logits(network: Network, features: Tensor, dense: Dense) -> Tensor:
    """Return (N, classes) logits of each node's own record."""
    return network.decoder(network.encoder(features, 0, dense), 0, dense)  # type: ignore[no-any-return]


def train_network(job: Job, observe: Observe, nodes: Nodes, loss_of: Logits, predicts: Logits) -> Outcome:
    """Train one seed by mean cross-entropy of the training nodes, or of batches of them.

    Args:
        job: The run.
        observe: Called at every evaluation.
        nodes: The graph on the device.
        loss_of: Logits in the loss.
        predicts: Logits of predictions.
    """
    bench: Bench = set_up(job)
    network, features = bench.network, bench.features
    batches, dense = numpy_generator(*job.names("batches")), reading(features)

    def loss(positions: Tensor) -> Tensor:
        logits = loss_of(network, features, dense)[nodes.roots[positions]]
        return nn.functional.cross_entropy(logits, nodes.labels[positions])

    sampler = fixed_size_sampler(job.cell, len(nodes.roots))
    step, how = on_device(job, BatchStep(bench.optimizer, sampler, batches, loss, job.device, bench.all_masks))
    whole = UndroppedPredictor(lambda one, records: predicts(one, records, dense))
    return run_loop(SeedRun(job, bench, step, {"batches": batches}, how, inference=whole), observe)


class Sgc:
    """Softmax regression on S^K X (Wu et al., 2019), as S^K (X W) + b: the same numbers from narrow products."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        nodes, steps = Nodes(job, own_edges=True), job.cell.model.spreading_steps

        def logits(network: Network, features: Tensor, dense: Dense) -> Tensor:
            layer = network.decoder.layers[0]
            return spread_layer(layer, features, lambda rows: nodes.spreading.repeated(rows, steps, 0.0), dense)

        return train_network(job, observe, nodes, logits, logits)


class Appnp:
    """An MLP whose logits are spread by power iteration, also in training (Klicpera et al., 2019, Eq. 4)."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        nodes, model = Nodes(job, own_edges=True), job.cell.model

        def logits(network: Network, features: Tensor, dense: Dense) -> Tensor:
            return nodes.spreading.repeated(own_logits(network, features, dense), model.spreading_steps, model.teleport)

        return train_network(job, observe, nodes, logits, logits)


class Pmlp:
    """An MLP in training, a GCN with its parameters in predictions (Yang et al., 2023, PMLP-GCN).

    A state is S (h W) + b before its activation.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        nodes = Nodes(job, own_edges=True)

        def logits(network: Network, features: Tensor, dense: Dense) -> Tensor:
            return spread_layers(network.decoder, spread_layers(network.encoder, features, nodes, dense), nodes, dense)

        return train_network(job, observe, nodes, own_logits, logits)


def spread_layer(layer: Any, rows: Tensor, spread: Callable[[Tensor], Tensor], dense: Dense) -> Tensor:
    """Return a linear layer of rows, its products spread before the bias is added: as if the rows had been spread."""
    return spread(dense(layer, rows, 0) - layer.bias) + layer.bias


def spread_layers(mlp: Mlp, rows: Tensor, nodes: Nodes, dense: Dense) -> Tensor:
    """Return the layers of an MLP, each followed by a message to all neighbours."""
    last = len(mlp.layers) - 1
    for place, layer in enumerate(mlp.layers):
        rows = spread_layer(layer, rows, nodes.spreading.once, dense)
        if place < last or mlp.activate_output:
            rows = mlp.activation(rows)
    return rows


class CorrectAndSmooth:
    """Own predictions, corrected by spread residuals and smoothed with labels (Huang et al., 2021, with autoscale)."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        nodes, model = Nodes(job, own_edges=False), job.cell.model

        def logits(network: Network, features: Tensor, dense: Dense) -> Tensor:
            own = torch.softmax(own_logits(network, features, dense), dim=1)
            return smoothed(corrected(own, nodes, model), nodes, model)

        return train_network(job, observe, nodes, own_logits, logits)


def corrected(own: Tensor, nodes: Nodes, model: Any) -> Tensor:
    """Return (N, C) predictions plus spread residuals, each scaled to the mean L1 norm of the residuals (Eq. 3, 4)."""
    steps, teleport = model.spreading_steps, model.correct_teleport
    residuals = torch.zeros_like(own)
    residuals[nodes.roots] = nodes.one_hot[nodes.roots] - own[nodes.roots]
    spread = nodes.spreading.repeated(residuals, steps, teleport)
    size = residuals[nodes.roots].abs().sum(dim=1).mean()
    norms = spread.abs().sum(dim=1, keepdim=True)
    return own + torch.where(norms > 0, size * spread / norms.clamp_min(torch.finfo(own.dtype).tiny), 0)


def smoothed(predictions: Tensor, nodes: Nodes, model: Any) -> Tensor:
    """Return (N, C) labels of training nodes and predictions of the others, spread (Eq. 5)."""
    steps, teleport = model.spreading_steps, model.smooth_teleport
    guessed = predictions.clone()
    guessed[nodes.roots] = nodes.one_hot[nodes.roots]
    return nodes.spreading.repeated(guessed, steps, teleport)


class LabelPropagation:
    """Labels of training nodes, spread (Zhou et al., 2004): F <- (1 - alpha) S F + alpha Y.

    Nodes that no label reaches get the most frequent class.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Return the spread labels."""
        nodes, model = Nodes(job, own_edges=False), job.cell.model
        spread = nodes.spreading.repeated(nodes.one_hot, model.spreading_steps, model.teleport)
        frequent = nodes.one_hot.mean(dim=0)
        scores = torch.where(spread.sum(dim=1, keepdim=True) > 0, spread, frequent)
        return constant_outcome(job, observe, scores.cpu().numpy())


class Random:
    """A uniformly random class for every node; it reads no record, so its epsilon is 0."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Return random scores."""
        shape = (job.graph.num_nodes, job.graph.num_classes)
        scores = numpy_generator(*job.names("random classes")).random(shape, dtype=np.float32)
        return constant_outcome(job, observe, scores)


class Majority:
    """The most frequent training label for every node, without privacy."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Return the counts of training labels for every node."""
        labels = np.asarray(job.graph.labels)[used_nodes(job)]
        counts = np.bincount(labels[labels >= 0], minlength=job.graph.num_classes).astype(np.float32)
        return constant_outcome(job, observe, np.tile(counts, (job.graph.num_nodes, 1)))
