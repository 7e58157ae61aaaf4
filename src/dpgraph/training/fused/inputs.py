"""The records that a batch's trees read, as inputs of a network's first layer.

NodeRecords do not change while a network is trained. So the inner products of those of one tree, which the norm of the
first layer's gradient is made of, are computed once for all steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.sampling.ego import EgoBatch, EgoTrees
from dpgraph.training.fused.activations import Activation
from dpgraph.training.fused.records import NodeRecords, RecordRows, records_of
from dpgraph.training.ghost import CallRows, LinearGradients, norms_with_products

LARGEST = 16  # rows of a tree whose products are kept: of larger ones they cost no more than they save
MOST_BYTES = 1 << 28  # of products that are kept
GATHERED = 1 << 20  # numbers of records gathered at a time
CACHED = 1 << 19  # numbers that stay in a core's cache
CACHED_CUDA = 1 << 28


class TreeInputs:
    """The records that trees read, and inner products, plus 1 for a bias, of those of each tree of few rows."""

    def __init__(self, trees: EgoTrees, features: Tensor) -> None:
        """`features` (N, F) must not change."""
        self.trees, self.features, self.records = trees, features, records_of(features)
        sizes = np.diff(trees.row_ptr[-1])  # ascending
        self._bounds = np.searchsorted(sizes, np.arange(LARGEST + 2)).tolist()
        memory = np.cumsum(np.diff(self._bounds) * np.arange(LARGEST + 1) ** 2) * features.element_size()
        self._largest = int(np.count_nonzero(memory <= MOST_BYTES)) - 1
        self._kept: dict[int, Tensor] = {}

    def products(self, ranks: np.ndarray, width: int) -> Tensor | None:
        """(b, w, w) of roots with trees of w rows, by their places in the trees' stored order; None: not kept."""
        if width > self._largest:
            return None
        if width not in self._kept:
            self._kept[width] = self._computed(width)
        chosen = torch.from_numpy(ranks - self._bounds[width])
        return self._kept[width].index_select(0, chosen.to(self.features.device, non_blocking=True))

    def _computed(self, width: int) -> Tensor:
        """(R_w, w, w) of all trees of w rows."""
        begin, end = self.trees.row_ptr[-1][self._bounds[width : width + 2]].tolist()
        nodes = self.trees.nodes[begin:end].view(-1, width)
        result = self.features.new_empty(len(nodes), width, width)
        step = max(1, GATHERED // (width * max(1, self.features.shape[1])))
        for part, some in zip(result.split(step), nodes.split(step), strict=True):
            records = self.features.index_select(0, some.flatten()).view(*some.shape, self.features.shape[1])
            torch.add(torch.bmm(records, records.mT), 1, out=part)
        return result


@dataclass(frozen=True)
class Part:
    """Some roots of a batch whose trees have w = `width` rows each, and their rows."""

    roots: slice
    rows: slice
    width: int


@dataclass(frozen=True)
class FirstRows:
    """The records of the trees of a batch, root by root and by ascending number of rows."""

    records: NodeRecords
    batch: EgoBatch
    ranks: np.ndarray  # (B,) of each root in the trees' stored order
    inputs: TreeInputs | None  # where inner products are known
    kept: dict[int, RecordRows] = field(default_factory=dict)  # records, by a part's first root

    @property
    def sizes(self) -> np.ndarray:
        """(B,) rows of each root."""
        return self.batch.sizes[-1]

    def parts(self, columns: int) -> Iterator[Part]:
        """Parts of which `columns` numbers a row stay in a core's cache."""
        cuts = np.flatnonzero(np.diff(self.sizes, prepend=-1, append=-1)).tolist()
        begin = 0
        for start, end in pairwise(cuts):
            width = int(self.sizes[start])
            step = max(1, (CACHED_CUDA if self.batch.nodes.is_cuda else CACHED) // (columns * width))
            for first in range(start, end, step):
                last = min(first + step, end)
                rows = (last - first) * width
                yield Part(slice(first, last), slice(begin, begin + rows), width)
                begin += rows

    def of(self, part: Part) -> RecordRows:
        """(b w, F)"""
        if part.roots.start not in self.kept:
            self.kept[part.roots.start] = self.records.take(self.batch.nodes[part.rows])
        return self.kept[part.roots.start]

    def products(self, part: Part) -> Tensor | None:
        """(b, w, w) of the part's roots; None: not known."""
        return None if self.inputs is None else self.inputs.products(self.ranks[part.roots], part.width)


@dataclass(frozen=True)
class FirstGradients:
    """Of the layer that reads records, in parts that stay in a core's cache."""

    layer: nn.Linear
    activation: Activation | None
    rows: FirstRows
    output: Tensor  # (n, d), activated
    above: Tensor  # gradients of the output, (n, d) or (B, w, d); the latter may be one number for all w rows
    kept: dict[int, Tensor] = field(default_factory=dict)  # gradients of what it gave, by a part's first root

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        result, scale = self.output.new_empty(2, len(self.rows.sizes))
        for part in self._parts():
            gradients, products = self._gradients(part), self.rows.products(part)
            self.kept[part.roots.start] = gradients
            if products is not None:
                norms = norms_with_products(products, gradients, part.width)
            else:
                call = CallRows.flat(self.rows.of(part).dense(), gradients, self.rows.sizes[part.roots])
                norms = LinearGradients(self.layer, (call,)).squared_norms()
            result[part.roots], scale[part.roots] = norms
        return result, scale

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        for part in self._parts():
            first = part.roots.start
            gradients = self.kept.pop(first) if first in self.kept else self._gradients(part)
            some = [None if values is None else values[part.roots] for values in (factors, finite)]
            self.rows.of(part).add_weighted(self.layer, gradients, self.rows.sizes[part.roots], sums, *some)

    def _parts(self) -> Iterator[Part]:
        return self.rows.parts(self.output.shape[1])

    def _gradients(self, part: Part) -> Tensor:
        """(b w, d) of what the activation read."""
        above = self.above[part.rows if self.above.dim() == 2 else part.roots]
        if self.activation is None:
            return above.reshape(-1, self.output.shape[1])
        output = self.output[part.rows]
        return self.activation.pull(above, output.view(above.shape)).view(output.shape)


def first_dense(layer: nn.Linear, activation: Activation | None, rows: FirstRows) -> Tensor:
    """act(W x + b) for all records, (n, d_out)."""
    output = layer.weight.new_empty(len(rows.batch.nodes), layer.out_features)
    for part in rows.parts(layer.out_features):
        some = rows.of(part).apply(layer, output[part.rows])
        if activation is not None:
            activation.apply_(some)
    return output
