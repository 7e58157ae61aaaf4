"""A first layer's output once for each node, and its gradient's sum by node, where trees of a batch share nodes.

What the layer gives for a record does not depend on the tree that reads it, nor does the derivative of its activation:
with h_u = act(W a_u + b), roots v, clip factors c_v and gradients G_vi for what the layer gave in row i of v's tree,

    sum_v c_v sum_i (act'(h_ui) * G_vi) a_ui^T = sum_u (act'(h_u) * sum_vi:ui=u c_v G_vi) a_u^T.

So the two largest products of a step, h and this sum, have a row for each node instead of one for each row of a tree.
Norms are those of single roots: they are taken before anything is added up over trees, and so are the factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.compiled import WORTH
from dpgraph.models.network import Network
from dpgraph.sampling.ego import EgoBatch
from dpgraph.training.fused.activations import Activation, activation_of
from dpgraph.training.fused.records import NodeRecords
from dpgraph.training.precision import operand_eps

MOST_BYTES = 30 << 20  # of the outputs that are held, and again of the sums
LEAST_COLUMNS = 32.0  # what reading and adding a row of a tree costs, in columns of records
PASSES = 48.0  # what the passes over a row cost that is computed once, in columns of records
CACHED = 1 << 19  # numbers that stay in a core's cache


class SharedNodes:
    """The first layer on the distinct nodes that some trees read; its `gradients` collect those of all trees."""

    @torch.no_grad()
    def __init__(
        self, layer: nn.Linear, activation: Activation | None, records: NodeRecords, present: np.ndarray
    ) -> None:
        """`present` (N,) says which nodes are read."""
        self.layer, self.activation, self.records = layer, activation, records
        nodes = np.flatnonzero(present)
        self.nodes = torch.from_numpy(nodes)
        self._place = np.empty(len(present), dtype=np.int64)
        self._place[nodes] = np.arange(len(nodes))
        self.output = layer.weight.new_empty(len(nodes), layer.out_features)
        for part in self._parts():
            some = records.take(self.nodes[part]).apply(layer, self.output[part])
            if activation is not None:
                activation.apply_(some)
        self.sums = torch.zeros_like(self.output)
        self.lost = False  # whether a root was left out

    @property
    def kind(self) -> int:
        """Of the activation, in compiled loops."""
        return 0 if self.activation is None else self.activation.kind

    def index(self, nodes: Tensor) -> Tensor:
        """The rows of `output` of `nodes`."""
        return torch.from_numpy(self._place[nodes.numpy()])

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """Of no root: all of them were counted where they were added to `sums`."""
        return self.output.new_empty(0), self.output.new_empty(0)

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        """Adds what all trees left in `sums`, whose rows are weighted already."""
        for part in self._parts():
            above, output, nodes = self.sums[part], self.output[part], self.nodes[part]
            if self.lost:  # a record that is not finite is read by lost roots only, and 0 times infinity is not 0
                read = above.any(1)
                above, output, nodes = above[read], output[read], nodes[read]
            gradients = above if self.activation is None else self.activation.pull(above, output)
            sizes = np.ones(len(nodes), dtype=np.int64)
            self.records.take(nodes).add_weighted(self.layer, gradients, sizes, sums, None, None)

    def _parts(self) -> Iterator[slice]:
        rows = max(1, CACHED // self.layer.out_features)
        for first in range(0, len(self.nodes), rows):
            yield slice(first, min(first + rows, len(self.nodes)))


@dataclass(frozen=True)
class Group:
    """Pieces of a batch, and which nodes (N,) they read where sharing those pays."""

    pieces: list[EgoBatch]
    present: np.ndarray | None

    def shared(self, network: Network, records: NodeRecords) -> SharedNodes | None:
        if self.present is None:
            return None
        encoder = network.encoder
        acts = encoder.activate_output or len(encoder.layers) > 1
        layer: nn.Linear = encoder.layers[0]  # type: ignore[assignment]
        return SharedNodes(layer, activation_of(encoder.activation) if acts else None, records, self.present)


def groups(network: Network, pieces: Iterator[EgoBatch], features: Tensor) -> Iterator[Group]:
    """The same pieces. What is shared depends on sizes and nodes only.

    Not where operands are rounded: the sum over trees would be, and what that adds to one root's contribution is not
    bounded by its norm (Lemma R of docs/privacy.md).
    """
    first = network.encoder.layers[0] if len(network.encoder.layers) else None
    if not network.hops or first is None or features.is_cuda or operand_eps(features):
        yield from (Group([piece], None) for piece in pieces)
        return
    width, columns = first.out_features, features.shape[1]
    most = MOST_BYTES // (width * features.element_size())
    present, held = np.zeros(len(features), dtype=bool), []
    for piece in pieces:
        present[piece.nodes.numpy()] = True
        if held and np.count_nonzero(present) > most:
            yield from _group(held, len(features), width, columns)
            present[:] = False
            present[piece.nodes.numpy()] = True
            held = []
        held.append(piece)
    yield from _group(held, len(features), width, columns)


def _group(pieces: list[EgoBatch], num_nodes: int, width: int, columns: int) -> Iterator[Group]:
    present = np.zeros(num_nodes, dtype=bool)
    for piece in pieces:
        present[piece.nodes.numpy()] = True
    rows, nodes = sum(len(piece.nodes) for piece in pieces), np.count_nonzero(present)
    if rows * width >= WORTH and (rows - nodes) * (columns + PASSES) > rows * LEAST_COLUMNS:
        yield Group(pieces, present)
    else:
        yield from (Group([piece], None) for piece in pieces)
