"""A first layer's output once for each node, and its gradient's sum by node, where trees of a batch share nodes.

The layer's output for a record does not depend on the tree that reads it, and neither does the derivative of its
activation: with h_u = act(W a_u + b), roots v, clip factors c_v and gradients G_vi of the output in row i of v's tree,

    sum_v c_v sum_i (act'(h_ui) * G_vi) a_ui^T = sum_u (act'(h_u) * sum_vi:ui=u c_v G_vi) a_u^T.

So the two largest products of a step, h and this sum, have a row for each node instead of one for each row of a tree.
Norms are those of single roots: they are taken before sums over trees are formed, and so are the factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.compiled import WORTH
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees
from dpgraph.engine.training.fused.passes import Activation, activation_of, loop_type
from dpgraph.engine.training.fused.records import NodeRecords, RecordRows
from dpgraph.engine.training.precision import operand_eps

MOST_BYTES = 30 << 20  # of the outputs that are held; the sums, in float64, take twice as much
LEAST_COLUMNS = 32.0  # what reading and adding a row of a tree costs, in columns of records
PASSES = 48.0  # what the passes over a row cost that is computed once, in columns of records
CACHED = 1 << 19  # numbers that stay in a core's cache


@dataclass(frozen=True)
class IndexedRows:
    """Rows on the host with an index: row i stands for rows[index[i]]."""

    rows: Tensor  # (k, d)
    index: np.ndarray  # (n,) int64

    @classmethod
    def from_rows(cls, values: Tensor) -> IndexedRows:
        """Return the rows of (n, d), or of (b, w, d) for b roots of w rows each, which may share their numbers."""
        if values.dim() == 3 and values.stride(1) == 0:
            return cls(values[:, 0].contiguous(), np.repeat(np.arange(len(values)), values.shape[1]))
        rows = values.reshape(-1, values.shape[-1]).contiguous()
        return cls(rows, np.arange(len(rows)))

    @property
    def flat(self) -> np.ndarray:
        return self.rows.view(-1).numpy()


class SharedNodes:
    """The first layer on the distinct nodes that some trees read, and the gradients of all trees that were added."""

    @torch.no_grad()
    def __init__(
        self, layer: nn.Linear, activation: Activation | None, records: NodeRecords, present: np.ndarray, roots: int
    ) -> None:
        """Compute the layer's outputs of the nodes that `present` (N,) marks, read by so many `roots`."""
        self.layer, self.activation, self.records = layer, activation, records
        nodes = np.flatnonzero(present)
        self.nodes = torch.from_numpy(nodes)
        self._place = np.empty(len(present), dtype=np.int64)
        self._place[nodes] = np.arange(len(nodes))
        self.output = layer.weight.new_empty(len(nodes), layer.out_features)
        self._few = len(nodes) * layer.in_features * self.output.element_size() <= MOST_BYTES
        self._kept: dict[int, RecordRows] = {}  # records, by a part's first node
        for part in self._parts():
            self._records(part).apply(layer, activation, self.output[part])
        self._sums: Tensor | None = None  # (D, d) by node, float64
        self._weighted = self.output.new_empty(0, layer.out_features)  # (roots, d), of which the first are filled
        self._most, self._filled = roots, 0
        self._read: list[tuple[np.ndarray, np.ndarray]] = []  # node and weighted row of each row
        self._lost = False  # whether a root was left out

    @property
    def kind(self) -> int:
        """The number of the activation in compiled loops."""
        return 0 if self.activation is None else self.activation.kind

    def index(self, nodes: Tensor) -> Tensor:
        """Return the rows of `output` of `nodes`."""
        return torch.from_numpy(self._place[nodes.numpy()])

    def add(
        self, index: Tensor, above: IndexedRows, sizes: np.ndarray, factors: Tensor | None, finite: Tensor | None
    ) -> None:
        """Add the gradients `above` of the outputs at `index` (n,), times their root's factor, of `finite` roots.

        `sizes` (b,) are the rows of each root.
        """
        if finite is not None:
            self._lost = True
        if len(above.rows) == len(sizes):  # the same for all rows of a root
            rows = above.rows if finite is None else above.rows.masked_fill(~finite.unsqueeze(1), 0)
            own = self._more(len(rows))
            if factors is None:
                own.copy_(rows)
            else:
                torch.mul(rows, factors.unsqueeze(1), out=own)
            self._read.append((index.numpy(), above.index + (self._filled - len(rows))))
            return
        from dpgraph.engine.training.fused.row_loops import ADD_ROWS

        if self._sums is None:
            self._sums = torch.zeros_like(self.output, dtype=torch.float64)
        weights = self.output.new_ones(len(sizes)) if factors is None else factors.contiguous()
        if finite is not None:
            weights = weights.masked_fill(~finite, 0)
        arrays = (index.numpy(), above.index, weights.numpy(), above.flat, self._sums.view(-1).numpy())
        ADD_ROWS[loop_type(weights)](self.output.shape[1], np.append(0, np.cumsum(sizes)), *arrays)

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """Return empty norms; the roots' norms were taken in `add`."""
        return self.output.new_empty(0), self.output.new_empty(0)

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        """Add the gradients of all added trees, which are weighted already, to the parameters' sums."""
        readers = self._readers()
        for part in self._parts():
            output, records = self.output[part], self._records(part)
            if self._sums is None and not self._lost:
                gradients, total = self._added(part, readers, self.kind)
            else:
                above, _ = self._added(part, readers, 0)
                if self._sums is not None:
                    above = (above + self._sums[part]).to(output.dtype)
                if self._lost:  # a record that is not finite is read by lost roots only, and 0 times infinity is not 0
                    read = above.any(1)
                    above, output, records = above[read], output[read], self.records.take(self.nodes[part][read])
                gradients = above if self.activation is None else self.activation.pull(above, output)
                total = gradients.sum(0)
            records.add_products(sums[self.layer.weight], gradients)
            sums[self.layer.bias] += total

    def _more(self, count: int) -> Tensor:
        """Return memory (count, d) for the weighted rows of as many more roots."""
        if not len(self._weighted):
            self._weighted = self.output.new_empty(self._most, self.output.shape[1])
        self._filled += count
        return self._weighted[self._filled - count : self._filled]

    def _readers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the (D + 1,) first reader of each node, and the weighted rows read by one node after the other."""
        if not self._read:
            return np.zeros(len(self.nodes) + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
        index, rows = (np.concatenate(some) for some in zip(*self._read, strict=True))
        order = torch.sort(torch.from_numpy(index), stable=True).indices.numpy()
        return np.append(0, np.cumsum(np.bincount(index, minlength=len(self.nodes)))), rows[order]

    def _added(self, part: slice, readers: tuple[np.ndarray, np.ndarray], kind: int) -> tuple[Tensor, Tensor]:
        """Return (nodes, d) sums over all trees of the weighted rows, pulled through the activation of this kind.

        Also return the sum (d,) of the former.
        """
        from dpgraph.engine.training.fused.row_loops import PULL_SUMS

        ptr, rows = readers
        output = self.output[part]
        result, total = torch.empty_like(output), np.zeros(output.shape[1])
        flat = [some.view(-1).numpy() for some in (self._weighted, output, result)]
        PULL_SUMS[loop_type(result)](kind, output.shape[1], ptr[part.start : part.stop + 1], rows, *flat, total)
        return result, torch.from_numpy(total).to(output.dtype)

    def _records(self, part: slice) -> RecordRows:
        """Return the records of a part's nodes; where they are few, the second pass finds them again."""
        if part.start not in self._kept:
            taken = self.records.take(self.nodes[part])
            if not self._few:
                return taken
            self._kept[part.start] = taken
        return self._kept[part.start]

    def _parts(self) -> Iterator[slice]:
        rows = max(1, CACHED // self.layer.out_features)
        for first in range(0, len(self.nodes), rows):
            yield slice(first, min(first + rows, len(self.nodes)))


@dataclass(frozen=True)
class Group:
    """Pieces of a batch, their roots, and which nodes (N,) they read where sharing those pays."""

    pieces: Iterator[EgoBatch]
    roots: int
    present: np.ndarray | None = None

    def shared(self, network: Network, records: NodeRecords) -> SharedNodes | None:
        """Return the first layer on the shared nodes, or None."""
        if self.present is None:
            return None
        encoder = network.encoder
        acts = encoder.activate_output or len(encoder.layers) > 1
        layer: nn.Linear = encoder.layers[0]  # type: ignore[assignment]
        activation = activation_of(encoder.activation) if acts else None
        return SharedNodes(layer, activation, records, self.present, self.roots)


def groups(network: Network, trees: EgoTrees, positions: np.ndarray, features: Tensor) -> Iterator[Group]:
    """Yield the batch in pieces. Numbers of rows and nodes decide which of them share nodes.

    For bounded lists these are public (`_read`), so that no list decides how the gradients of all roots are added up.
    Pieces do not share where operands are rounded: the sum over trees would be rounded, and what that adds to one
    root's contribution is not bounded by its norm (Theorem 2 of docs/privacy/shared.md).
    """
    if not len(network.encoder.layers) or not trees.hops or features.is_cuda or operand_eps(features):
        yield Group(trees.chunks(positions), len(positions))
        return
    width: int = network.encoder.layers[0].out_features  # type: ignore[assignment]
    most = MOST_BYTES // (width * features.element_size())
    parts = [np.argsort(trees.rank[positions], kind="stable")]
    while parts:
        own = parts.pop()
        rows, found = _read(trees, positions[own])
        saved = (rows - found) * (features.shape[1] + PASSES)
        if (len(own) == len(positions) and rows * width < WORTH) or saved <= rows * LEAST_COLUMNS or len(own) == 1:
            yield Group(_pieces(trees, positions, own), len(own))
        elif found <= most:
            present = np.zeros(len(features), dtype=bool)
            present[trees.nodes_at(positions[own])] = True
            yield Group(_pieces(trees, positions, own), len(own), present)
        else:
            parts += np.array_split(own, 2)[::-1]


def _read(trees: EgoTrees, positions: np.ndarray) -> tuple[int, int]:
    """Return how many rows these trees have and how many nodes they read.

    Of bounded lists it is what trees of as many rows as they may have, of random nodes, would have.
    """
    lists = trees.lists
    bounds = [bound for bound in (lists.max_degree, lists.list_cap) if bound is not None]
    if not bounds:
        return trees.rows_at(positions), len(np.unique(trees.nodes_at(positions)))
    rows = len(positions) * (1 + min(bounds)) ** trees.hops
    return rows, round(-lists.num_nodes * math.expm1(-rows / max(1, lists.num_nodes)))


def _pieces(trees: EgoTrees, positions: np.ndarray, places: np.ndarray) -> Iterator[EgoBatch]:
    """Yield the pieces of the roots at `places` among `positions`."""
    for piece in trees.chunks(positions[places]):
        yield replace(piece, places=places[piece.places])
