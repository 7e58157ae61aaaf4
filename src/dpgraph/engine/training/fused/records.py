"""Records as inputs of a first layer: dense, or sparse where such products are faster (bags of words)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.engine.models.sparse import Bags, Csr, sparse_rows
from dpgraph.engine.training.fused.passes import Activation, affine
from dpgraph.engine.training.ghost import ByRoot, CallRows, LinearGradients, Sums


@dataclass(frozen=True)
class DenseRows:
    """The records (n, F) of some rows."""

    values: Tensor  # (n, F)

    def apply(self, layer: nn.Linear, activation: Activation | None, out: Tensor) -> Tensor:
        """Write act(W x + b) of every row to `out` (n, d)."""
        return affine(layer, activation, self.values, out)

    def dense(self) -> Tensor:
        return self.values

    def add_weighted(
        self, layer: nn.Linear, gradients: Tensor, sizes: np.ndarray, sums: Sums, factors: ByRoot, finite: ByRoot
    ) -> None:
        """Add the layer's weighted gradients to `sums`, as `RootGradients.add_weighted`.

        `gradients` (n, d) are those of its outputs; `sizes` (B,) the rows of each root.
        """
        LinearGradients(layer, (CallRows.flat(self.values, gradients, sizes),)).add_weighted(sums, factors, finite)

    def add_products(self, weight: Tensor, gradients: Tensor) -> None:
        """Add gradients^T records to the sum (d, F) of the weight's gradient."""
        weight.addmm_(gradients.T, self.values)


@dataclass(frozen=True)
class DenseRecords:
    """The records (N, F) of all nodes, which do not change."""

    values: Tensor  # (N, F)

    def take(self, nodes: Tensor) -> DenseRows:
        return DenseRows(self.values.index_select(0, nodes))


@dataclass(frozen=True)
class SparseRows:
    """`DenseRows`, kept sparse."""

    matrix: Csr  # (n, F)
    like: Tensor  # of the type and on the device of the records

    @cached_property
    def _rows(self) -> Bags:
        return self._bags(self.matrix)

    @cached_property
    def _columns(self) -> Bags:
        return self._bags(self.matrix.transposed())

    def _bags(self, matrix: Csr) -> Bags:
        return Bags.from_csr(matrix, self.like.device)

    def apply(self, layer: nn.Linear, activation: Activation | None, out: Tensor) -> Tensor:
        torch.add(self._rows.sums(layer.weight.T.contiguous()), layer.bias, out=out)
        return out if activation is None else activation.apply_(out)

    def dense(self) -> Tensor:
        arrays = (self.matrix.values, self.matrix.columns, self.matrix.ptr)
        whole = sp.csr_matrix(arrays, shape=(len(self.matrix.ptr) - 1, self.matrix.width)).toarray()
        return torch.from_numpy(whole).to(self.like.device, self.like.dtype)

    def add_weighted(
        self, layer: nn.Linear, gradients: Tensor, sizes: np.ndarray, sums: Sums, factors: ByRoot, finite: ByRoot
    ) -> None:
        if finite is not None and not bool(finite.all()):  # 0 times infinity is not 0: leave out what is lost
            kept = np.flatnonzero(np.repeat(finite.cpu().numpy(), sizes))
            chosen = torch.from_numpy(finite.cpu().numpy().nonzero()[0]).to(gradients.device)
            part = SparseRows(self.matrix.take(kept), self.like)
            of_rows = gradients[torch.from_numpy(kept).to(gradients.device)]
            some = None if factors is None else factors[chosen]
            part.add_weighted(layer, of_rows, sizes[finite.cpu().numpy()], sums, some, None)
            return
        if factors is not None:
            gradients = gradients * CallRows.flat(gradients, gradients, sizes).per_row(factors).squeeze(2)
        self.add_products(sums[layer.weight], gradients)
        sums[layer.bias] += gradients.sum(0)

    def add_products(self, weight: Tensor, gradients: Tensor) -> None:
        weight += self._columns.sums(gradients).T


@dataclass(frozen=True)
class SparseRecords:
    """`DenseRecords`, kept sparse."""

    matrix: Csr  # (N, F)
    like: Tensor

    def take(self, nodes: Tensor) -> SparseRows:
        return SparseRows(self.matrix.take(nodes.cpu().numpy()), self.like)


RecordRows = DenseRows | SparseRows
NodeRecords = DenseRecords | SparseRecords


def records_of(features: Tensor) -> NodeRecords:
    """Return records that are dense, or sparse where `sparse_rows` has them."""
    rows = sparse_rows(features)
    return DenseRecords(features) if rows is None else SparseRecords(rows, features)
