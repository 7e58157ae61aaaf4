"""Losses of a batch's roots and the gradients of every root, from closed forms instead of autograd."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import HeadLinear, KeyLinear, SelfWeight
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.segments import Segments
from dpgraph.engine.sampling.ego import EgoBatch
from dpgraph.engine.training.captured.slot_batch import AloneBatch, SlotBatch
from dpgraph.engine.training.fused.inputs import FirstRows, TreeInputs
from dpgraph.engine.training.fused.layers import Calls, Pull, SlotRecords, chained, encode, per_row, perceptron
from dpgraph.engine.training.fused.messages import INDEXED, MESSAGES
from dpgraph.engine.training.fused.passes import activation_of
from dpgraph.engine.training.fused.records import DenseRecords
from dpgraph.engine.training.fused.shared import SharedNodes
from dpgraph.engine.training.ghost import RootGradients

LAYERS = (nn.Linear, HeadLinear, KeyLinear, SelfWeight)

Parts = tuple[Mapping[nn.Module, RootGradients], Tensor]  # gradients by layer, (B,) losses


def has_closed_form(network: nn.Module) -> bool:
    """Return whether every part of the network, as it is trained, has a closed form here."""
    if type(network) is not Network or (network.training and network.encoder.dropout.rate):
        return False
    parts = [network.encoder, *network.aggregation, network.decoder]
    return (
        all(type(layer) in LAYERS for layer in network.layers)
        and all(type(layer) in MESSAGES for layer in network.aggregation)
        and all(activation_of(part.activation) is not None for part in parts)  # type: ignore[arg-type]
    )


@torch.no_grad()
def root_parts(
    network: Network, batch: EgoBatch | SlotBatch, records: FirstRows | SlotRecords, labels: Tensor
) -> Parts:
    """Return gradients and losses (B,) of the cross-entropy of the roots' logits; `labels` is (N,)."""
    calls = Calls()
    states, index, pull_states = encode(network.encoder, records, calls)
    logits, pull = _classify(network, states, batch, calls, index)
    losses, gradient = cross_entropy(logits, labels.index_select(0, batch.roots))
    pull_states(pull(gradient))
    return calls.gradients(), losses


@torch.no_grad()
def neighbour_parts(
    network: Network, batch: EgoBatch | SlotBatch, records: FirstRows | SlotRecords, labels: Tensor
) -> Parts:
    """Return gradients and losses (B,) of the tree's loss minus that of the root alone.

    Both share the encoding of the root.
    """
    calls, target = Calls(), labels.index_select(0, batch.roots)
    states, index, pull_states = encode(network.encoder, records, calls)
    full, pull_full = _classify(network, states, batch, calls, index)
    roots = batch.own if index is None else index[batch.own]
    own, pull_own = _classify(network, states.index_select(0, roots), batch.without_messages(), calls)
    losses, of_full = cross_entropy(full, target)
    own_losses, of_own = cross_entropy(own, target)
    of_states = per_row(pull_full(of_full)).contiguous()
    pull_states(of_states.index_add_(0, batch.own, pull_own(of_own.neg_())))
    return calls.gradients(), losses - own_losses


def _classify(
    network: Network,
    states: Tensor,
    batch: EgoBatch | SlotBatch | AloneBatch,
    calls: Calls,
    index: Tensor | None = None,
) -> tuple[Tensor, Pull]:
    """Return the logits (B, classes) from states (n_r, width) of the deepest rows, and the pull.

    With an index, the states are those at its places.
    """
    if index is not None and type(network.aggregation[0]) not in INDEXED:
        states, index = states.index_select(0, index), None
    pulls: list[Pull] = []
    for layer, level in zip(network.aggregation, reversed(range(network.hops)), strict=True):
        sizes, below = batch.sizes[level], batch.sizes[level + 1]
        segments, index = Segments.of_level(batch, level, index), None
        states, pull = MESSAGES[type(layer)](layer, states, segments, sizes, below, calls)
        pulls.append(pull)
    logits, pull = perceptron(network.decoder, states, np.ones(batch.num_roots, dtype=np.int64), calls)
    return logits, chained([*pulls, pull])


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B,) losses and their gradients (B, classes); both are 0 for a root without a label (-1)."""
    none, chosen = labels < 0, labels.clamp_min(0).unsqueeze(1)
    log_shares = torch.log_softmax(logits, 1)
    losses = log_shares.gather(1, chosen).squeeze(1).neg_().masked_fill_(none, 0)
    gradient = log_shares.exp_()
    gradient.scatter_add_(1, chosen, gradient.new_full((1, 1), -1).expand(len(gradient), 1))
    return losses, gradient.masked_fill_(none.unsqueeze(1), 0)


def first_rows(
    batch: EgoBatch, features: Tensor, ranks: np.ndarray, inputs: TreeInputs | None, shared: SharedNodes | None = None
) -> FirstRows:
    """Return the records of a batch's trees."""
    return FirstRows(DenseRecords(features) if inputs is None else inputs.records, batch, ranks, inputs, shared)
