"""Constant matrices, sparse or dense, times dense ones, both ways round, without autograd.

Sparse products are sums of bags of rows: two to five times as fast as CSR products of MKL on the matrices of citation
graphs (one core). Every row of a product is summed separately in the order of its entries, so it does not depend on
what else is computed.

Which records are kept sparse follows from a declared number (`declared_density`), never from a count of the records:
one record would decide how the gradients of all others are added up. Of 60,000 equal ones a sparse sum in float32, one
number after the other, and a dense one differ by 23 clip norms; two sparse ones by .002.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Dense, apply_layer

DENSE_FROM = 0.3  # share of entries that are not zero, from which dense products are faster
SPARSE_BELOW = 0.08  # the same for layers of 32 to 256 units, whose dense product with a bias is one call
_DENSITY: ContextVar[float] = ContextVar("declared density", default=1.0)


@contextmanager
def declared_density(share: float) -> Iterator[None]:
    """Take this public share of numbers to be not zero, in records of which products are made in this context.

    Elsewhere records are dense.
    """
    token = _DENSITY.set(share)
    try:
        yield
    finally:
        _DENSITY.reset(token)


@dataclass(frozen=True)
class Csr:
    """Compressed sparse rows on the host. Taking rows of it costs a third of what SciPy's indexing does."""

    ptr: np.ndarray  # (n + 1,) int32
    columns: np.ndarray  # (nnz,) int32
    values: np.ndarray  # (nnz,) float32
    width: int

    @classmethod
    def from_scipy(cls, matrix: sp.csr_matrix) -> Csr:
        """Return the rows of a SciPy matrix."""
        ptr, columns = matrix.indptr.astype(np.int32, copy=False), matrix.indices.astype(np.int32, copy=False)
        return cls(ptr, columns, matrix.data.astype(np.float32, copy=False), matrix.shape[1])

    def take(self, rows: np.ndarray) -> Csr:
        """Return these rows, in this order."""
        first = self.ptr[rows]
        lengths = self.ptr[rows + 1] - first
        ptr = np.zeros(len(rows) + 1, dtype=np.int32)
        np.cumsum(lengths, out=ptr[1:])
        entries = np.arange(ptr[-1], dtype=np.int32) + np.repeat(first - ptr[:-1], lengths)
        return Csr(ptr, self.columns[entries], self.values[entries], self.width)

    def transposed(self) -> Csr:
        arrays = (self.values, self.columns, self.ptr)
        by_column = sp.csr_matrix(arrays, shape=(len(self.ptr) - 1, self.width)).tocsc()
        return Csr(by_column.indptr, by_column.indices, by_column.data, len(self.ptr) - 1)

    def renamed(self, columns: np.ndarray) -> Csr:
        """Return the same rows over the ascending `columns`, which hold all that occur."""
        return replace(self, columns=np.searchsorted(columns, self.columns).astype(np.int32), width=len(columns))


@dataclass(frozen=True)
class Bags:
    """The rows of a sparse matrix."""

    ptr: Tensor  # (n + 1,) int32
    columns: Tensor  # (nnz,) int32
    values: Tensor  # (nnz,) float32

    @classmethod
    def from_csr(cls, matrix: Csr, device: torch.device) -> Bags:
        arrays = (matrix.ptr, matrix.columns, matrix.values)
        return cls(*(torch.from_numpy(array).to(device, non_blocking=True) for array in arrays))

    def sums(self, dense: Tensor) -> Tensor:
        """Return the product with `dense`: sums of its rows."""
        if not len(self.columns):
            return dense.new_zeros(len(self.ptr) - 1, dense.shape[1])
        return nn.functional.embedding_bag(
            self.columns,
            dense,
            self.ptr,
            mode="sum",
            per_sample_weights=self.values.to(dense.dtype),
            include_last_offset=True,
        )

    @property
    def nbytes(self) -> int:
        return self.ptr.nbytes + self.columns.nbytes + self.values.nbytes


@dataclass(frozen=True)
class SparseMatrix:
    """A constant (n, m) matrix M."""

    rows: Bags
    columns: Bags  # rows of the transposed matrix

    @classmethod
    def from_csr(cls, matrix: Csr, device: torch.device, symmetric: bool = False) -> SparseMatrix:
        rows = Bags.from_csr(matrix, device)
        return cls(rows, rows if symmetric else Bags.from_csr(matrix.transposed(), device))

    def times(self, dense: Tensor) -> Tensor:
        """Return M dense, (n, k), for dense (m, k)."""
        return self.rows.sums(dense)

    def transposed_times(self, dense: Tensor) -> Tensor:
        """Return M^T dense, (m, k), for dense (n, k)."""
        return self.columns.sums(dense)

    def dense_columns(self, start: int, stop: int) -> Tensor:
        """Return the columns `start` to `stop` of M, (n, stop - start)."""
        ptr = self.columns.ptr[start : stop + 1].long()
        entries = slice(int(ptr[0]), int(ptr[-1]))
        places = torch.repeat_interleave(torch.arange(stop - start, device=ptr.device), ptr.diff())
        dense = self.columns.values.new_zeros(self.shape[0], stop - start)
        dense[self.columns.columns[entries].long(), places] = self.columns.values[entries]
        return dense

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows.ptr) - 1, len(self.columns.ptr) - 1

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + (0 if self.columns is self.rows else self.columns.nbytes)


@dataclass(frozen=True)
class DenseMatrix:
    """The `chosen` rows of `rows`, or all of them, gathered again in each product."""

    rows: Tensor
    chosen: Tensor | None = None

    def times(self, dense: Tensor) -> Tensor:
        return self._gathered.to(dense.dtype) @ dense

    def transposed_times(self, dense: Tensor) -> Tensor:
        return self._gathered.T.to(dense.dtype) @ dense

    def dense_columns(self, start: int, stop: int) -> Tensor:
        part = self.rows[:, start:stop]
        return part if self.chosen is None else part.index_select(0, self.chosen)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows if self.chosen is None else self.chosen), self.rows.shape[1]

    @property
    def _gathered(self) -> Tensor:
        return self.rows if self.chosen is None else self.rows.index_select(0, self.chosen)

    @property
    def nbytes(self) -> int:
        return 0 if self.chosen is None else self.chosen.nbytes


Matrix = SparseMatrix | DenseMatrix


class Features:
    """The features (N, F) of all nodes, kept sparse where `declared_density` says that this is faster."""

    def __init__(self, features: np.ndarray, device: torch.device) -> None:
        self.device = device
        self.sparse = _DENSITY.get() < DENSE_FROM
        self._csr = Csr.from_scipy(sp.csr_matrix(features)) if self.sparse else None
        self._dense = None if self.sparse else torch.from_numpy(np.array(features, dtype=np.float32)).to(device)
        self.all: Matrix = (
            DenseMatrix(self._dense) if self._dense is not None else SparseMatrix.from_csr(self._csr, device)  # type: ignore[arg-type]
        )  # fmt: skip

    def take(self, nodes: np.ndarray) -> Matrix:
        """Return the rows of these nodes, in this order."""
        if self._dense is not None:
            return DenseMatrix(self._dense, torch.from_numpy(nodes).to(self.device, non_blocking=True))
        return SparseMatrix.from_csr(self._csr.take(nodes), self.device)  # type: ignore[union-attr]


def sparse_rows(features: Tensor) -> Csr | None:
    """Return the rows of `features` (N, F); None on a GPU, and where by `declared_density` dense rows are faster."""
    if features.is_cuda or _DENSITY.get() >= SPARSE_BELOW:
        return None
    matrix = sp.csr_matrix(features.numpy())
    ptr, columns = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    return Csr(ptr, columns, matrix.data, features.shape[1])


def reading(features: Tensor) -> Dense:
    """Return a function that applies layers: linear ones on `features` by a sparse product, where `sparse_rows` has it.

    The gradient does not reach the features, which must not change.
    """
    rows = sparse_rows(features)
    if rows is None:
        return apply_layer
    matrix = SparseMatrix.from_csr(rows, features.device)

    def apply(layer: nn.Module, inputs: Tensor, level: int) -> Tensor:
        if inputs is features and type(layer) is nn.Linear:
            return _Affine.apply(matrix, layer.weight, layer.bias)  # type: ignore[no-any-return]
        return apply_layer(layer, inputs, level)

    return apply


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, matrix: SparseMatrix, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.matrix = matrix  # type: ignore[attr-defined]
        return matrix.times(weight.T.contiguous()).add_(bias)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        gradient = gradients[0].contiguous()
        return None, ctx.matrix.transposed_times(gradient).T, gradient.sum(0)  # type: ignore[attr-defined]
