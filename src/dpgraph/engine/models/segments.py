"""The rows that a message-passing layer reads: each node's *segment*, the rows of itself and of its list.

The operators here keep the gradients of different segments apart and have backward passes of their own: PyTorch's would
scatter and sort where a run of rows or a transposed list states where each gradient goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.engine.sampling.ego import EgoBatch, Hop, upload

WIDTH_GROWTH = 1.125  # padded blocks of unequal runs waste at most this factor
FEW_BLOCKS = 16  # so many cost less than gathering rows
PADDED_ROWS = 512  # of a block
SPARE = 16  # entries of a range of no segment
FEW_ROWS = 4096  # as many as padding makes them: one padded block costs less than several


class SegmentedBatch(Protocol):
    """A batch that has segments of its own."""

    def segments(self, level: int) -> Any:
        """Return how a level reads the next one, by the methods of `Segments`."""


@dataclass(frozen=True)
class Segments:
    """Segment i holds the rows `columns[ptr[i] : ptr[i + 1]]`, its own row first."""

    ptr: Tensor  # (n + 1,) integers
    columns: Tensor | None  # (m,) integers; None: 0, 1, 2, ..., every row in exactly one segment
    num_rows: int
    lengths: np.ndarray | None = None  # (n,) rows of each segment on the host: known for whole runs of rows only
    index: Tensor | None = None  # (num_rows,) row i is rows[index[i]] of what `own`, `sum` and `mean` are given
    spare: int = 0  # ranges that `reduce` needs for entries behind the last segment

    @classmethod
    def of_level(cls, batch: EgoBatch | SegmentedBatch, level: int, index: Tensor | None = None) -> Segments:
        """Return how level `level` of ego trees reads the next one."""
        if not isinstance(batch, EgoBatch):
            return batch.segments(level)  # type: ignore[no-any-return]
        hop, sizes = batch.hops[level], batch.sizes[level + 1]
        # A root reads all its rows. Where it is its only one, so does it on every level.
        columns = None if bool(np.all(sizes == 1)) else hop.columns
        return cls(hop.ptr, columns, int(sizes.sum()), sizes if level == 0 else None, index)

    @classmethod
    def of_graph(cls, hop: Hop) -> Segments:
        """Return every node's segment on the whole graph; entries are sorted once, at the first backward pass."""
        return cls(hop.ptr, hop.columns, len(hop.ptr) - 1)

    @property
    def num_segments(self) -> int:
        return len(self.ptr) - 1

    def own(self, rows: Tensor) -> Tensor:
        """Return the rows (n, d) of the segments' own nodes, from rows (num_rows, d)."""
        if self.index is not None:
            return rows.index_select(0, self.index if self.width == 1 else self.index[self.entries[self.ptr[:-1]]])
        if self.width == 1:
            return rows
        if self.width is not None:
            return rows.view(-1, self.width, rows.shape[1])[:, 0]
        first = self.ptr[:-1]
        return rows.index_select(0, first if self.columns is None else self.columns[first])

    def sum(self, rows: Tensor) -> Tensor:
        """Return the sums (n, d) over segments of rows (num_rows, d)."""
        if self.index is not None:
            return self._reduced(rows, self.index, "sum")
        if self.width is not None:
            return rows if self.width == 1 else rows.view(-1, self.width, rows.shape[1]).sum(1)
        return self._reduced_whole(rows, "sum")

    def mean(self, rows: Tensor) -> Tensor:
        """Return the means (n, d) over segments of rows (num_rows, d)."""
        if self.index is not None:
            return self._reduced(rows, self.index, "mean")
        if self.width is not None:
            return rows if self.width == 1 else rows.view(-1, self.width, rows.shape[1]).mean(1)
        return self._reduced_whole(rows, "mean")

    def _reduced_whole(self, rows: Tensor, mode: str) -> Tensor:
        """Return sums or means of rows, with a backward pass where one may come."""
        if torch.is_grad_enabled():
            return _Reduce.apply(rows, self, mode)  # type: ignore[no-any-return]
        return reduce(rows, self.entries, self.ptr, mode, spare=self.spare)

    def _reduced(self, rows: Tensor, index: Tensor, mode: str) -> Tensor:
        """Return sums or means over indexed rows, without copies of rows and without a backward pass."""
        return reduce(rows, index if self.columns is None else index[self.columns], self.ptr, mode)

    def spread(self, gradient: Tensor) -> Tensor:
        """Return the gradient of the rows from that of the sums (n, d): (num_rows, d), a sum over the segments that
        read a row.

        Where every segment has its own w rows, return a view (n, w, d) without memory of its own.
        """
        if self.width is not None:
            return gradient if self.width == 1 else gradient.unsqueeze(1).expand(-1, self.width, -1)
        if self.columns is None:
            return torch.repeat_interleave(gradient, self.ptr.diff(), dim=0, output_size=self.num_rows)
        ptr, order = self.readers
        return reduce(gradient, self.owners[order], ptr, spare=self.spare)

    def divided(self, values: Tensor) -> Tensor:
        """Divide (n, d) by the number of rows of each segment, in place."""
        if self.width is not None:
            return values if self.width == 1 else values.div_(self.width)
        return values.div_(self.ptr.diff().unsqueeze(1).to(values.dtype))

    def add_own(self, spread: Tensor, own: Tensor) -> Tensor:
        """Return the result of `spread` plus `own` (n, d) for each segment's own row; may overwrite the first."""
        if self.width == 1:
            return spread + own
        if self.width is not None:
            whole = spread.contiguous().view(-1, self.width, own.shape[1])
            whole[:, 0] += own
            return whole
        first = self.ptr[:-1]
        return spread.index_add_(0, first if self.columns is None else self.columns[first], own)

    @property
    def indexed_runs(self) -> np.ndarray | None:
        """(n,) rows of each segment, where rows have an index and each is in exactly one segment."""
        return None if self.index is None or self.columns is not None else self.lengths

    @property
    def own_rows(self) -> bool:
        """True if every row is in one segment, as far as the host knows."""
        return self.lengths is not None

    def runs(self) -> Iterator[PaddedRuns]:
        """Yield the rows of all segments in blocks, where every row is in one segment."""
        if self.lengths is None:
            raise TypeError("runs need segments without shared rows")
        return blocks(self.lengths, self.ptr.device)

    @property
    def alone(self) -> bool:
        """True if every segment consists of its own row."""
        return len(self.entries) == self.num_segments

    @cached_property
    def width(self) -> int | None:
        """The width w if segment i is the w rows i w, i w + 1, ..., as far as the host knows."""
        if self.columns is None and self.num_rows == self.num_segments:
            return 1
        if self.lengths is None or not len(self.lengths) or np.any(self.lengths != self.lengths[0]):
            return None
        return int(self.lengths[0])

    @cached_property
    def entries(self) -> Tensor:
        """The rows (m,) of all segments, one after the other."""
        return torch.arange(self.num_rows, device=self.ptr.device) if self.columns is None else self.columns

    @cached_property
    def owners(self) -> Tensor:
        """The segment (m,) of each entry."""
        each = torch.arange(self.num_segments, device=self.ptr.device)
        return torch.repeat_interleave(each, self.ptr.diff(), output_size=len(self.entries))

    @cached_property
    def readers(self) -> tuple[Tensor, Tensor]:
        """Transposed lists: the entries of row j are `order[ptr[j] : ptr[j + 1]]`, as (ptr (num_rows + 1,), order)."""
        return transposed(self.entries, self.num_rows)


def transposed(columns: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """Return where each of the rows stands among the columns (m,), as `Segments.readers`; those beyond are no row."""
    ascending, order = torch.sort(columns, stable=True)
    rows = torch.arange(num_rows + 1, dtype=ascending.dtype, device=ascending.device)
    return torch.searchsorted(ascending, rows), order


class _Reduce(torch.autograd.Function):
    """Sums or means over segments; the gradient of a row is the sum over the segments that read it."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, rows: Tensor, segments: Segments, mode: str) -> Tensor:
        ctx.segments, ctx.mode = segments, mode  # type: ignore[attr-defined]
        return reduce(rows, segments.entries, segments.ptr, mode, spare=segments.spare)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None, None]:
        segments: Segments = ctx.segments  # type: ignore[attr-defined]
        mean = ctx.mode == "mean"  # type: ignore[attr-defined]
        share = gradients[0] / segments.ptr.diff().unsqueeze(1) if mean else gradients[0]
        return segments.spread(share), None, None


def reduce(
    rows: Tensor, index: Tensor, ptr: Tensor, mode: str = "sum", weights: Tensor | None = None, spare: int = 0
) -> Tensor:
    """Return the (n, d) sums or means of rows[index[e]], times weights[e], over the entries e of each range of `ptr`.

    `rows` is (N, d), `ptr` (n + 1,). PyTorch puts entries behind the last range into it; with `spare` there are so many
    ranges more for them, each of at most `SPARE` entries: a GPU reads the entries of a range one after the other.
    """
    ranges = len(ptr) - 1
    if spare:
        further = torch.arange(SPARE, SPARE * (spare + 1), SPARE, dtype=ptr.dtype, device=ptr.device)
        ptr = torch.cat([ptr, (ptr[-1] + further).clamp_max_(len(index))])
    return nn.functional.embedding_bag(
        index, rows, ptr.to(index.dtype), mode=mode, include_last_offset=True, per_sample_weights=weights
    )[:ranges]


@dataclass(frozen=True)
class PaddedRuns:
    """Runs of rows of about equal lengths, as one padded array of width w."""

    runs: slice | Tensor  # (b,) which runs
    rows: slice | Tensor  # their rows: a slice of b w rows, or (b, w) indices
    shape: tuple[int, int]  # (b, w)
    missing: Tensor | None  # (b, w) bool: padding, which repeats the run's own last row. None: no padding
    places: slice | np.ndarray  # `runs` on the host
    there: Tensor | None = None  # places among b w of the rows that are not missing, where known
    whole: bool = False  # True if these are all runs, in their order

    def take(self, rows: Tensor) -> Tensor:
        """Return rows (n, ...) as (b, w, ...); a view where the runs are neighbours of equal length."""
        picked = rows[self.rows] if isinstance(self.rows, slice) else rows.index_select(0, self.rows.flatten())
        return picked.view(*self.shape, *rows.shape[1:])

    def filled(self, rows: Tensor) -> Tensor:
        """Return rows (n, ...) as (b, w, ...), with zeros instead of missing rows."""
        if self.missing is None:
            return self.take(rows)
        if self.there is None or isinstance(self.rows, slice):
            return self.take(rows).masked_fill(self.missing.view(*self.shape, *(1,) * (rows.dim() - 1)), 0)
        result = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
        own = rows if self.whole else rows.index_select(0, self.rows.flatten()[self.there])
        result.index_copy_(0, self.there, own)
        return result.view(*self.shape, *rows.shape[1:])

    def split(self, most: int) -> Iterator[PaddedRuns]:
        """Yield the same runs, at most `most` at a time."""
        runs, width = self.shape
        for first in range(0, runs, most):
            last = min(first + most, runs)
            part = slice(first, last)
            missing = None if self.missing is None else self.missing[part]
            if isinstance(self.runs, slice) and isinstance(self.rows, slice):
                start, row = self.runs.start, self.rows.start
                yield equal_runs(start + first, start + last, row + first * width, width, missing)
            else:
                yield PaddedRuns(self.runs[part], self.rows[part], (last - first, width), missing, self.places[part])  # type: ignore[index]

    def put(self, result: Tensor, left: Tensor, right: Tensor) -> None:
        """Write the product of (b, k, w) and (b, w, d) to the runs' places in `result` (n, k, d)."""
        if isinstance(self.runs, slice):
            torch.bmm(left, right, out=result[self.runs])
        else:
            result[self.runs] = torch.bmm(left, right)

    def write(self, rows: Tensor, values: Tensor) -> None:
        """Write (b, w, d) to the `rows` (n + 1, d) of all runs; the last row takes the padding."""
        if isinstance(self.rows, slice):
            rows[self.rows] = values.flatten(0, 1)
            return
        places = self.rows if self.missing is None else self.rows.masked_fill(self.missing, len(rows) - 1)
        rows.index_copy_(0, places.flatten(), values.flatten(0, 1))


def blocks(lengths: np.ndarray, device: torch.device) -> Iterator[PaddedRuns]:
    """Yield all rows of consecutive runs of `lengths` rows each, in few blocks; nothing waits for the device."""
    starts = np.cumsum(lengths) - lengths
    cuts = np.flatnonzero(np.diff(lengths)) + 1
    if len(cuts) and len(lengths) * int(lengths.max()) <= FEW_ROWS:
        yield replace(_padded_runs(np.arange(len(lengths)), starts, lengths, device), whole=True)
        return
    if len(cuts) < FEW_BLOCKS:
        for first, last in zip([0, *cuts], [*cuts, len(lengths)], strict=True):
            yield equal_runs(int(first), int(last), int(starts[first]), int(lengths[first]))
        return
    order = np.argsort(lengths, kind="stable")
    ascending = bool(np.all(np.diff(lengths) >= 0))
    ordered = lengths[order]
    for first, last in pairwise(_cuts(ordered)):
        if ascending and ordered[first] == ordered[last - 1]:
            yield equal_runs(int(first), int(last), int(starts[first]), int(ordered[first]))
        else:
            yield _padded_runs(order[first:last], starts, lengths, device)


def _cuts(ordered: np.ndarray) -> list[int]:
    """Return the first places of blocks of ascending lengths, and their number.

    Blocks hold one class of widths, or several that are padded by few rows: a block costs as much as some rows more.
    """
    before = np.append(0, np.cumsum(ordered)).tolist()
    begin, result = 0, [0]
    for middle, last in pairwise([0, *(np.flatnonzero(np.diff(_width_class(ordered))) + 1).tolist(), len(ordered)]):
        if (last - begin) * int(ordered[last - 1]) - (before[last] - before[begin]) > PADDED_ROWS and middle > begin:
            result.append(begin := middle)
    return [*result, len(ordered)]


def equal_runs(first: int, last: int, begin: int, width: int, missing: Tensor | None = None) -> PaddedRuns:
    """Return neighbouring runs of equal length, whose rows begin at `begin`; `missing` ones (b, w) are padding."""
    shape = (last - first, width)
    runs = slice(first, last)
    return PaddedRuns(runs, slice(begin, begin + shape[0] * width), shape, missing, runs)


def _padded_runs(runs: np.ndarray, starts: np.ndarray, lengths: np.ndarray, device: torch.device) -> PaddedRuns:
    """Return the runs, of which run i has `lengths[i]` rows from `starts[i]` on."""
    own = lengths[runs, None]
    column = np.arange(int(own.max()))
    # A missing row repeats the run's own last row: no other run's values can leak in, even infinite ones.
    rows = starts[runs, None] + np.minimum(column, own - 1)
    missing, there = None, None
    if not np.all(own == len(column)):
        missing, there = upload(column >= own, device), upload(np.flatnonzero(column < own), device)
    return PaddedRuns(upload(runs, device), upload(rows, device), (len(runs), len(column)), missing, runs, there)


def _width_class(lengths: np.ndarray) -> np.ndarray:
    """Return equal numbers for lengths that share a block.

    Lengths up to 1 / (growth - 1) have a class each, larger ones share it within a factor.
    """
    grown = 8 + np.ceil(np.log(np.maximum(lengths, 8) / 8) / np.log(WIDTH_GROWTH))
    return np.where(lengths <= 8, lengths, grown)
