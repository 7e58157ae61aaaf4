"""Ego trees in slots: a batch whose shapes do not depend on the draw, with the parts of `EgoBatch` that networks read.

Deepest rows and rows of level 1 that a tree lacks repeat its own last one and weigh 0. A padded row of level 1 reads a
row of its own tree. A slot without a root holds some tree without a label, whose loss and gradients are 0; it is left
out like any root's if they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dpgraph.engine.models.segments import SPARE, Segments
from dpgraph.engine.models.slot_segments import AloneSegments, SlotLists, SlotRows, SlotSegments
from dpgraph.engine.sampling.ego import EgoTrees
from dpgraph.engine.sampling.slots import SlotClasses

NO_LABEL = -1


@dataclass(frozen=True)
class Level:
    """The rows of all trees in one level; the last tree is for slots without a root."""

    start: Tensor  # (R + 1,) int64 first row of each tree
    sizes: Tensor  # (R + 1,) int64 rows of each tree


@dataclass(frozen=True)
class LevelRows:
    """The rows of one level of a batch."""

    sizes: Tensor  # (slots,) rows of each tree
    lengths: Tensor  # (n,) the same for each row
    places: Tensor  # (n,) of each row among those of all trees


class SlotTrees:
    """Ego trees by their places in stored order, ascending in size, and the slots that a batch of them is put in."""

    def __init__(self, trees: EgoTrees, labels: Tensor, classes: SlotClasses, number_type: torch.dtype) -> None:
        """Lay out trees with labels (N,) of all nodes; the widest class holds the largest tree."""
        self.trees, self.classes, self.number_type = trees, classes, number_type
        self.levels = [
            Level(*(_with_spare(part, trees.device) for part in (ptr[:-1], np.diff(ptr)))) for ptr in trees.row_ptr
        ]
        self.own = _with_spare(trees.own, trees.device)
        self.labels = torch.nn.functional.pad(labels[trees.roots], (0, 1), value=NO_LABEL)
        largest = [_largest(np.diff(ptr), trees, classes) for ptr in trees.row_ptr[:-1]]
        widths = [*largest, classes.widths] if trees.hops else [classes.widths]
        lists = trees.hops == 2 and classes.widths[-1] > 1
        self.rows = [SlotRows(classes.counts, width, trees.device) for width in widths]
        self.entries = torch.arange(self._most_entries(widths[1]) if lists else 0, device=trees.device)

    @property
    def spare(self) -> int:
        """The place of the tree that slots without a root hold."""
        return self.trees.num_roots

    def _most_entries(self, widths: Sequence[int]) -> int:
        """Return how many entries the lists of level 1 have at most in a batch, those of padded rows included."""
        trees = self.trees
        entries, rows = np.diff(trees.entry_ptr[1]), np.diff(trees.row_ptr[1])
        needed = _largest(entries - rows, trees, self.classes)
        return sum(
            count * (most + width) for count, most, width in zip(self.classes.counts, needed, widths, strict=True)
        )


def _with_spare(values: np.ndarray, device: torch.device) -> Tensor:
    """Return values (R,) of all trees and of the spare one, which is the first, on the device."""
    return torch.from_numpy(np.append(values, values[:1])).to(device)


def _largest(values: np.ndarray, trees: EgoTrees, classes: SlotClasses) -> tuple[int, ...]:
    """Return the largest of the values (R,) of the trees that fit in each class."""
    ends = np.searchsorted(np.diff(trees.row_ptr[-1]), classes.widths, side="right")
    return tuple(np.maximum.accumulate(values)[np.maximum(ends, 1) - 1].tolist())


@dataclass(frozen=True)
class SlotBatch:
    """The trees in the slots of one step; it takes the place of an `EgoBatch`, whose roots are the places of trees."""

    slots: SlotTrees
    roots: Tensor  # (slots,) of each slot's tree
    _levels: dict[int, LevelRows] = field(default_factory=dict)

    @property
    def num_roots(self) -> int:
        return len(self.roots)

    @property
    def sizes(self) -> list[SlotRows]:
        """The rows of each slot in every level."""
        return self.slots.rows

    @cached_property
    def nodes(self) -> Tensor:
        """(n,) the node id of each row of the deepest level."""
        return self.slots.trees.nodes.index_select(0, self._level(self.slots.trees.hops).places)

    @cached_property
    def own(self) -> Tensor:
        """(slots,) the row of each root itself in the deepest level."""
        return self.sizes[-1].first + self.slots.own.index_select(0, self.roots)

    @cached_property
    def finite(self) -> Tensor:
        """(slots,) True for a slot with a root."""
        return self.roots < self.slots.spare

    def segments(self, level: int) -> Segments | SlotSegments | AloneSegments:
        """Return how a level reads the next one."""
        below = self.sizes[level + 1]
        if self.sizes[-1].once:
            return AloneSegments()
        if level:
            return self._lists()
        rows = self._level(1)
        return SlotSegments(below, rows.lengths, rows.sizes.unsqueeze(1).to(self.slots.number_type))

    def without_messages(self) -> AloneBatch:
        """Return the same roots, each alone."""
        return AloneBatch([self.sizes[0]] * len(self.sizes))

    def _level(self, level: int) -> LevelRows:
        """Return the rows of a level, computed once."""
        if level not in self._levels:
            rows, table = self.sizes[level], self.slots.levels[level]
            sizes = table.sizes.index_select(0, self.roots)
            lengths, starts = rows.per_row(sizes), rows.per_row(table.start.index_select(0, self.roots))
            self._levels[level] = LevelRows(sizes, lengths, starts + torch.minimum(rows.column, lengths - 1))
        return self._levels[level]

    def _lists(self) -> Segments:
        """Return the closed lists of level 1, whose entries are rows of level 2."""
        trees, rows, below, found = self.slots.trees, self.sizes[1], self.sizes[2], self._level(1)
        ptr, entries = trees.segment_ptr[1], self.slots.entries
        first, padding = ptr.index_select(0, found.places), rows.column >= found.lengths
        lengths = (ptr.index_select(0, found.places + 1) - first).masked_fill_(padding, 1)
        ends = lengths.cumsum(0)
        unused = entries >= ends[-1]
        owners = torch.searchsorted(ends, entries, right=True).clamp_max_(rows.num_rows - 1)
        within = entries - (ends - lengths).index_select(0, owners)
        within.masked_fill_(padding.index_select(0, owners) | unused, 0)
        read = trees.columns[1].index_select(0, first.index_select(0, owners) + within)  # type: ignore[union-attr]
        columns = read + below.first.index_select(0, rows.owner.index_select(0, owners))
        starts = torch.nn.functional.pad(ends, (1, 0))
        spare = -(-(len(entries) - rows.num_rows) // SPARE)
        return SlotLists(starts, columns, below.num_rows, spare=spare, owners=owners, unused=unused)


@dataclass(frozen=True)
class AloneBatch:
    """The roots of a batch in slots, each alone."""

    sizes: Sequence[SlotRows]

    @property
    def num_roots(self) -> int:
        return len(self.sizes[0])

    def segments(self, level: int) -> AloneSegments:
        """Return how a level reads the next one."""
        return AloneSegments()
