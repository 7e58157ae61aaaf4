"""Losses of the roots in slots and every root's gradient, by the closed forms of `training.fused`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Mlp
from dpgraph.engine.models.network import Network
from dpgraph.engine.training.captured.slot_batch import AloneSegments, SlotBatch, SlotLayout, SlotSegments
from dpgraph.engine.training.clipping import RootLosses, neighbour_losses, root_losses
from dpgraph.engine.training.fused.layers import Calls, Pull, chained, perceptron
from dpgraph.engine.training.fused.messages import MESSAGES
from dpgraph.engine.training.fused.network import Parts, cross_entropy
from dpgraph.engine.training.fused.passes import Activation, activation_of
from dpgraph.engine.training.ghost import explicit_form, gram_form


@dataclass(frozen=True)
class DeviceRecords:
    """The records (N, F) of all nodes, which do not change."""

    values: Tensor
    finite: bool  # all of them


@dataclass(frozen=True)
class RowGradients:
    """The gradients of a linear map that acts on all rows of the trees."""

    layer: nn.Linear
    inputs: Tensor  # (n, d_in)
    gradients: Tensor  # (n, d_out); 0 for padding
    layout: SlotLayout
    finite_inputs: bool

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """Return squared norms and rounding scales, see `ghost.RootGradients`."""
        d_in, d_out = self.inputs.shape[1], self.gradients.shape[1]
        parts = []
        for a, g in zip(self.layout.padded(self.inputs), self.layout.padded(self.gradients), strict=True):
            if a.shape[1] == 1:  # rank one
                square = (_squared(a) + 1).mul_(_squared(g))
                parts.append((square, square))
                continue
            form = gram_form if a.shape[1] <= d_in * d_out / (d_in + d_out) else explicit_form
            parts.append(form(a.unsqueeze(1), g.unsqueeze(1), 1.0))
        norms, scales = zip(*parts, strict=True)
        return (norms[0], scales[0]) if len(parts) == 1 else (torch.cat(norms), torch.cat(scales))

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        inputs, gradients = self.inputs, self.gradients
        if factors is not None:
            gradients = gradients * self.layout.per_row(factors).unsqueeze(1)
        if finite is not None:  # 0 times infinity is not 0
            lost = ~self.layout.per_row(finite).unsqueeze(1)
            gradients = gradients.masked_fill(lost, 0)
            inputs = inputs if self.finite_inputs else inputs.masked_fill(lost, 0)
        sums[self.layer.weight].addmm_(gradients.T, inputs)
        sums[self.layer.bias] += gradients.sum(0)


SlotParts = Callable[[Network, SlotBatch, DeviceRecords], Parts]


@torch.no_grad()
def root_parts(network: Network, batch: SlotBatch, records: DeviceRecords) -> Parts:
    """Return gradients and losses of the roots in slots, as `training.fused.network.root_parts`."""
    calls = Calls()
    states, pull_states = _encode(network.encoder, batch, records, calls)
    logits, pull = _classify(network, states, batch, _segments(batch, states), calls)
    losses, gradient = cross_entropy(logits, batch.labels)
    pull_states(pull(gradient))
    return calls.gradients(), losses


@torch.no_grad()
def neighbour_parts(network: Network, batch: SlotBatch, records: DeviceRecords) -> Parts:
    """Return gradients and losses of the neighbours' part, as `training.fused.network.neighbour_parts`."""
    calls = Calls()
    states, pull_states = _encode(network.encoder, batch, records, calls)
    segments = _segments(batch, states)
    full, pull_full = _classify(network, states, batch, segments, calls)
    own, pull_own = _classify(network, segments.own(states), batch, AloneSegments(), calls)
    losses, of_full = cross_entropy(full, batch.labels)
    own_losses, of_own = cross_entropy(own, batch.labels)
    pull_states(segments.add_own(pull_full(of_full), pull_own(of_own.neg_())))
    return calls.gradients(), losses - own_losses


SLOT_FORMS: dict[RootLosses, SlotParts] = {root_losses: root_parts, neighbour_losses: neighbour_parts}


def _squared(rows: Tensor) -> Tensor:
    """Return the (n,) squared lengths of (n, 1, d)."""
    return torch.linalg.vector_norm(rows, dim=2).square_().squeeze(1)


def _segments(batch: SlotBatch, states: Tensor) -> SlotSegments | AloneSegments:
    return AloneSegments() if batch.layout.alone else batch.segments(states)


def _encode(encoder: Mlp, batch: SlotBatch, records: DeviceRecords, calls: Calls) -> tuple[Tensor, Pull]:
    """Return the states of all rows; the records need no gradient, so the result of `pull` is not used."""
    rows, finite, pulls = records.values.index_select(0, batch.nodes), records.finite, []
    for index, layer in enumerate(encoder.layers):
        rows, pull = _row_layer(layer, activation_of(encoder.activation), rows, batch.layout, finite, calls, index > 0)  # type: ignore[arg-type]
        pulls.append(pull)
        finite = False  # states are not checked
    return rows, chained(pulls)


def _row_layer(
    layer: nn.Linear,
    activation: Activation | None,
    rows: Tensor,
    layout: SlotLayout,
    finite: bool,
    calls: Calls,
    goes_on: bool,
) -> tuple[Tensor, Pull]:
    output = torch.addmm(layer.bias, rows, layer.weight.T)
    if activation is not None:
        activation.apply_(output)

    def pull(gradient: Tensor) -> Tensor:
        below = gradient if activation is None else activation.pull(gradient, output)
        calls.first[layer] = RowGradients(layer, rows, below, layout, finite)
        return below @ layer.weight if goes_on else below

    return output, pull


def _classify(
    network: Network, states: Tensor, batch: SlotBatch, segments: SlotSegments | AloneSegments, calls: Calls
) -> tuple[Tensor, Pull]:
    once, pulls = batch.layout.once, []
    for layer in network.aggregation:
        states, pull = MESSAGES[type(layer)](layer, states, segments, once, once, calls)
        pulls.append(pull)
    logits, pull = perceptron(network.decoder, states, once, calls)
    return logits, chained([*pulls, pull])
