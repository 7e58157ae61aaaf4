"""Rows of trees in slots of fixed widths: what `segments` does for rows of any number, in shapes that never change.

A slot has as many rows as its class is wide. Rows that a tree lacks repeat its own last row and weigh 0: no other
tree's record is read in their place, not even one that is infinite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from dpgraph.engine.models.segments import PaddedRuns, Segments, equal_runs, transposed


class SlotRows:
    """The rows that each slot has in one level; they stand where `ghost` expects the rows (B,) of each root."""

    def __init__(self, counts: Sequence[int], widths: Sequence[int], device: torch.device) -> None:
        self.counts, self.widths, self.device = tuple(counts), tuple(widths), device
        slots, rows = (np.append(0, np.cumsum(sizes)).tolist() for sizes in (counts, np.multiply(counts, widths)))
        self.slots, self.rows = ([slice(*ends) for ends in pairwise(cuts)] for cuts in (slots, rows))
        self.num_rows: int = rows[-1]

    @classmethod
    def side_by_side(cls, parts: Sequence[SlotRows]) -> SlotRows:
        """Return slots that hold the rows of all parts."""
        widths = [sum(widths) for widths in zip(*(part.widths for part in parts), strict=True)]
        return cls(parts[0].counts, widths, parts[0].device)

    def __len__(self) -> int:
        return sum(self.counts)

    @cached_property
    def owner(self) -> Tensor:
        """(n,) the slot of each row."""
        return torch.repeat_interleave(torch.arange(len(self)), self._lengths).to(self.device)

    @cached_property
    def first(self) -> Tensor:
        """(slots,) the first row of each slot."""
        return (self._lengths.cumsum(0) - self._lengths).to(self.device)

    @cached_property
    def column(self) -> Tensor:
        """(n,) the place of each row in its slot."""
        return torch.arange(self.num_rows, device=self.device) - self.first.index_select(0, self.owner)

    @property
    def _lengths(self) -> Tensor:
        return torch.repeat_interleave(torch.tensor(self.widths), torch.tensor(self.counts))

    @property
    def once(self) -> bool:
        """True if each slot has one row."""
        return self.num_rows == len(self)

    def padded(self, rows: Tensor) -> list[Tensor]:
        """Return views (slots, width, ...) of rows (n, ...), one for each class."""
        return [rows[own].view(-1, width, *rows.shape[1:]) for own, width in zip(self.rows, self.widths, strict=True)]

    def per_row(self, values: Tensor) -> Tensor:
        """Return values (slots,) as (n,), one for each row."""
        return values if self.once else values.index_select(0, self.owner)

    def per_root(self, values: Tensor) -> Tensor:
        """Return the (slots,) sums of values (n,) over each slot's rows."""
        return values if self.once else joined([part.sum(1) for part in self.padded(values)])

    def runs(self, missing: Tensor | None = None) -> Iterator[PaddedRuns]:
        """Yield the rows of all slots, those of a class as one block; `missing` (n,) is True for padding."""
        for slots, rows, width in zip(self.slots, self.rows, self.widths, strict=True):
            padding = None if missing is None else missing[rows].view(-1, width)
            yield equal_runs(slots.start, slots.stop, rows.start, width, padding)


@dataclass(frozen=True)
class SlotSegments:
    """The methods of `segments.Segments` that message-passing layers call, over slots whose roots read all rows."""

    rows: SlotRows
    lengths: Tensor  # (n,) for each row, how many rows its tree has
    sizes: Tensor  # (slots, 1) rows of each tree, in the type of states
    alone = False
    own_rows = True

    @cached_property
    def there(self) -> Tensor:
        """(n, 1) 1 for a row of the tree, 0 for padding."""
        return (self.rows.column < self.lengths).to(self.sizes.dtype).unsqueeze(1)

    def runs(self) -> Iterator[PaddedRuns]:
        """Yield the rows of all slots in blocks."""
        return self.rows.runs(self.rows.column >= self.lengths)

    def own(self, rows: Tensor) -> Tensor:
        """Return the roots' own rows (slots, d), from rows (n, d)."""
        return rows.index_select(0, self.rows.first)

    def sum(self, rows: Tensor) -> Tensor:
        """Return the sums (slots, d) over trees of rows (n, d)."""
        return joined([part.sum(1) for part in self.rows.padded(rows * self.there)])

    def mean(self, rows: Tensor) -> Tensor:
        """Return the means (slots, d) over trees of rows (n, d)."""
        return self.sum(rows) / self.sizes

    def divided(self, values: Tensor) -> Tensor:
        """Divide values (slots, d) by the rows of each tree, in place."""
        return values.div_(self.sizes)

    def spread(self, gradient: Tensor) -> Tensor:
        """Return the gradient (n, d) of the rows from that of the sums (slots, d)."""
        return self.rows.per_row(gradient) * self.there

    def add_own(self, spread: Tensor, own: Tensor) -> Tensor:
        """Return the result of `spread` plus `own` (slots, d) for each root's own row; may overwrite the first."""
        return spread.index_add_(0, self.rows.first, own)


@dataclass(frozen=True, kw_only=True)
class SlotLists(Segments):
    """The lists of rows in slots. Entries behind the last list are in none, and read some row."""

    owners: Tensor  # type: ignore[assignment]  # (m,) the list of each entry
    unused: Tensor  # (m,) True for the entries behind the last list

    @cached_property
    def readers(self) -> tuple[Tensor, Tensor]:
        return transposed(self.entries.masked_fill(self.unused, self.num_rows), self.num_rows)


class AloneSegments:
    """The segments of roots that read only themselves."""

    alone = own_rows = True
    width = 1

    def own(self, rows: Tensor) -> Tensor:
        """Return the rows: each is its root's own."""
        return rows

    sum = mean = divided = spread = own

    def add_own(self, spread: Tensor, own: Tensor) -> Tensor:
        """Return the sum of both gradients."""
        return spread + own


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Return the parts one after the other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
