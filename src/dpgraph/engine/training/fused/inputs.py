"""The records that a batch's trees read, as inputs of a network's first layer.

Records do not change while a network is trained. So the inner products of the records of one tree, from which the norm
of the first layer's gradient is made, are computed once for all steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.compiled import WORTH
from dpgraph.engine.models.products import inner_products
from dpgraph.engine.models.segments import blocks
from dpgraph.engine.sampling.edge_lists import ranges
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees, upload
from dpgraph.engine.training.fused.passes import Activation, loop_type
from dpgraph.engine.training.fused.records import NodeRecords, RecordRows, records_of
from dpgraph.engine.training.fused.shared import IndexedRows, SharedNodes
from dpgraph.engine.training.ghost import CallRows, LinearGradients, norms_with_products

LARGEST = 16  # rows of a tree whose products are kept: of larger ones they cost no more than they save
MOST_BYTES = 1 << 28  # of products that are kept
GATHERED = 1 << 20  # numbers of records gathered at a time
CACHED = 1 << 19  # numbers that stay in a core's cache
CACHED_CUDA = 1 << 28


class TreeInputs:
    """The records that trees read, and inner products, plus 1 for a bias, of the records of each small tree."""

    def __init__(self, trees: EgoTrees, features: Tensor, records: NodeRecords | None = None) -> None:
        """Keep `features` (N, F), which must not change, and `records_of` them."""
        self.trees, self.features, self.records = trees, features, records or records_of(features)
        sizes = np.diff(trees.row_ptr[-1])  # ascending
        self._bounds = np.searchsorted(sizes, np.arange(LARGEST + 2)).tolist()
        memory = np.cumsum(np.diff(self._bounds) * np.arange(LARGEST + 1) ** 2) * features.element_size()
        self._largest = int(np.count_nonzero(memory <= MOST_BYTES)) - 1
        kept = sizes[: self._bounds[self._largest + 1]]
        self._first = np.append(0, np.cumsum(kept**2))  # of each root's products among all

    def has(self, sizes: np.ndarray) -> bool:
        """Return whether the products of trees of so many rows are kept."""
        return int(sizes.max()) <= self._largest

    def products(self, ranks: np.ndarray, sizes: np.ndarray) -> Tensor:
        """Return (b, w, w) of roots by their places in the trees' stored order, w the most of their `sizes`.

        A tree of fewer rows is filled with zeros.
        """
        width = int(sizes.max())
        if sizes[0] == width and sizes[-1] == width and np.all(sizes == width):
            begin, end = self._bounds[width : width + 2]
            same = self._kept[self._first[begin] : self._first[end]].view(-1, width, width)
            return same.index_select(0, upload(ranks - begin, self.features.device))
        row = np.arange(width) < sizes[:, None]
        there = np.flatnonzero(row[:, :, None] & row[:, None, :])
        kept, device = ranges(self._first[ranks], sizes**2), self.features.device
        result = self._kept.new_zeros(len(sizes) * width**2)
        result[upload(there, device)] = self._kept.index_select(0, upload(kept, device))
        return result.view(-1, width, width)

    @cached_property
    def _kept(self) -> Tensor:
        result = self.features.new_empty(int(self._first[-1]))
        for width in range(1, self._largest + 1):
            begin, end = self._bounds[width : width + 2]
            rows = self.trees.nodes[int(self.trees.row_ptr[-1][begin]) : int(self.trees.row_ptr[-1][end])]
            own = result[self._first[begin] : self._first[end]].view(-1, width, width)
            step = max(1, GATHERED // (width * max(1, self.features.shape[1])))
            for part, nodes in zip(own.split(step), rows.split(step * width), strict=True):
                records = self.features.index_select(0, nodes).view(len(part), width, self.features.shape[1])
                part.copy_(inner_products(records).add_(1))
        return result

    def norms(
        self, ranks: np.ndarray, sizes: np.ndarray, kind: int, output: IndexedRows, above: IndexedRows
    ) -> tuple[Tensor, Tensor]:
        """Return `norms_with_products` of roots by a compiled loop that reads their rows once: (b,) each.

        `output` are the outputs of an activation of this `kind` for each row, `above` their gradients.
        """
        from dpgraph.engine.training.fused.row_loops import NORMS

        like = above.rows
        width, ptr, first = like.shape[1], np.append(0, np.cumsum(sizes)), self._first[ranks]
        result, scale = like.new_empty(len(sizes)), like.new_empty(len(sizes))
        rows = np.empty(int(sizes.max()) * width, dtype=result.numpy().dtype)
        arrays = (output.index, above.index, output.flat, above.flat, first, self._kept.numpy(), rows)
        NORMS[loop_type(like)](kind, width, ptr, *arrays, result.numpy(), scale.numpy())
        return result, scale


@dataclass(frozen=True)
class Part:
    """Some roots of a batch, and their rows."""

    roots: slice
    rows: slice


@dataclass(frozen=True)
class FirstRows:
    """The records of the trees of a batch, root by root."""

    records: NodeRecords
    batch: EgoBatch
    ranks: np.ndarray  # (B,) of each root in the trees' stored order
    inputs: TreeInputs | None  # where inner products are known
    shared: SharedNodes | None = None  # where trees share nodes
    kept: dict[int, RecordRows] = field(default_factory=dict)  # records, by a part's first root

    @cached_property
    def sizes(self) -> np.ndarray:
        """(B,) the rows of each root."""
        return self.batch.sizes[-1]

    @cached_property
    def index(self) -> Tensor:
        """(n,) the place of each row among the shared nodes."""
        return self.shared.index(self.batch.nodes)  # type: ignore[union-attr]

    def parts(self, columns: int) -> list[Part]:
        """Return parts of which `columns` numbers a row stay in a core's cache."""
        most = max(1, (CACHED_CUDA if self.batch.nodes.is_cuda else CACHED) // columns)
        if len(self.batch.nodes) <= most:
            return [Part(slice(0, len(self.sizes)), slice(0, len(self.batch.nodes)))]
        ends = np.cumsum(self.sizes)
        piece = (ends - 1) // most
        cuts = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(ends)]
        rows = [0, *(int(ends[cut - 1]) for cut in cuts[1:])]
        return [Part(slice(a, b), slice(c, d)) for (a, b), (c, d) in zip(pairwise(cuts), pairwise(rows), strict=True)]

    def part_records(self, part: Part) -> RecordRows:
        """Return the records (b, F) of a part."""
        if part.roots.start not in self.kept:
            self.kept[part.roots.start] = self.records.take(self.batch.nodes[part.rows])
        return self.kept[part.roots.start]


@dataclass(frozen=True)
class FirstGradients:
    """The gradients of the layer that reads records, in parts that stay in a core's cache."""

    layer: nn.Linear
    activation: Activation | None
    rows: FirstRows
    output: Tensor  # (n, d), activated
    above: Tensor  # gradients of the output, (n, d) or (B, w, d); the latter may be one number for all w rows
    kept: dict[int, Tensor] = field(default_factory=dict)  # gradients of what it gave, by a part's first root

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        parts = self._parts()
        if len(parts) == 1:
            self.kept[0] = gradients = self._gradients(parts[0])
            return self._norms(parts[0], gradients)
        result, scale = self.output.new_empty(2, len(self.rows.sizes))
        for part in parts:
            self.kept[part.roots.start] = gradients = self._gradients(part)
            result[part.roots], scale[part.roots] = self._norms(part, gradients)
        return result, scale

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        for part in self._parts():
            first = part.roots.start
            gradients = self.kept.pop(first) if first in self.kept else self._gradients(part)
            some = [None if values is None else values[part.roots] for values in (factors, finite)]
            self.rows.part_records(part).add_weighted(self.layer, gradients, self.rows.sizes[part.roots], sums, *some)

    def _parts(self) -> list[Part]:
        return self.rows.parts(self.output.shape[1])

    def _gradients(self, part: Part) -> Tensor:
        """Return the (b, d) gradients of the activation's input."""
        above = self.above[part.rows if self.above.dim() == 2 else part.roots]
        if self.activation is None:
            return above.reshape(-1, self.output.shape[1])
        output = self.output[part.rows]
        return self.activation.pull(above, output.view(above.shape)).view(output.shape)

    def _norms(self, part: Part, gradients: Tensor) -> tuple[Tensor, Tensor]:
        sizes, inputs = self.rows.sizes[part.roots], self.rows.inputs
        if inputs is None or not inputs.has(sizes):
            call = CallRows.flat(self.rows.part_records(part).dense(), gradients, sizes)
            return LinearGradients(self.layer, (call,)).squared_norms()
        ranks = self.rows.ranks[part.roots]
        if not gradients.is_cuda and self.output.numel() >= WORTH:
            read = IndexedRows.from_rows(gradients)
            return inputs.norms(ranks, sizes, 0, read, read)
        result, scale = gradients.new_empty(2, len(sizes))
        for block in blocks(sizes, gradients.device):
            products = inputs.products(ranks[block.places], sizes[block.places])
            result[block.runs], scale[block.runs] = norms_with_products(products, block.filled(gradients))
        return result, scale


@dataclass(frozen=True)
class SharedGradients:
    """The gradients of the layer that reads records, whose outputs and sums are held by node."""

    rows: FirstRows
    shared: SharedNodes
    above: Tensor | IndexedRows  # as in `FirstGradients`, or by root

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        sizes, inputs, kind = self.rows.sizes, self.rows.inputs, self.shared.kind
        if inputs is not None and inputs.has(sizes):
            output = IndexedRows(self.shared.output, self.rows.index.numpy())
            return inputs.norms(self.rows.ranks, sizes, kind, output, self._read)
        given = self.shared.output.index_select(0, self.rows.index)
        above = self._read.rows.index_select(0, torch.from_numpy(self._read.index))
        alone = replace(self.rows, shared=None, kept={})
        return FirstGradients(self.shared.layer, self.shared.activation, alone, given, above).squared_norms()

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        """Add to the sums by node; `SharedNodes` adds those to the parameters' after all trees."""
        self.shared.add(self.rows.index, self._read, self.rows.sizes, factors, finite)

    @cached_property
    def _read(self) -> IndexedRows:
        return self.above if isinstance(self.above, IndexedRows) else IndexedRows.from_rows(self.above)


def first_dense(layer: nn.Linear, activation: Activation | None, rows: FirstRows) -> Tensor:
    """Return act(W x + b) of all records, (n, d_out)."""
    output = layer.weight.new_empty(len(rows.batch.nodes), layer.out_features)
    for part in rows.parts(layer.out_features):
        rows.part_records(part).apply(layer, activation, output[part.rows])
    return output
