"""Trees of depth 0 or 1 in slots: a batch whose shapes do not depend on the draw.

A slot holds a root and as many rows as its class is wide. Rows that a tree lacks repeat its own last row and weigh 0:
no other tree's record is read in its place, not even one that is infinite. A slot without a root holds some tree
without a label, whose loss and gradients are 0; it is left out like any root's if they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from dpgraph.engine.sampling.ego import EgoTrees
from dpgraph.engine.sampling.slots import SlotClasses
from dpgraph.engine.training.clipping import NO_LABEL


@dataclass(frozen=True)
class TreeTable:
    """The trees by their places in stored order, ascending in size; the last row is for slots without a root."""

    nodes: Tensor  # (R + 1, W) int64 node ids, the root first
    sizes: Tensor  # (R + 1,) int64 rows
    labels: Tensor  # (R + 1,) int64

    @classmethod
    def from_trees(cls, trees: EgoTrees, labels: Tensor, width: int) -> TreeTable:
        """Return the table, on the trees' device, of rows of `width` W: those of the largest tree, or more.

        `labels` is (N,).
        """
        ptr = torch.from_numpy(trees.row_ptr[-1]).to(trees.device)
        sizes = ptr.diff()
        within = torch.minimum(torch.arange(width, device=trees.device), sizes.unsqueeze(1) - 1)
        nodes = trees.nodes[ptr[:-1].unsqueeze(1) + within]
        return cls(
            torch.cat([nodes, nodes[:1]]),
            torch.cat([sizes, sizes[:1]]),
            torch.nn.functional.pad(labels[trees.roots], (0, 1), value=NO_LABEL),
        )


class SlotLayout:
    """The places of slots and rows of each class; the same at every step."""

    def __init__(self, classes: SlotClasses, device: torch.device) -> None:
        self.classes, self.device = classes, device
        counts, widths = np.array(classes.counts), np.array(classes.widths)
        slots, rows = (np.append(0, np.cumsum(sizes)) for sizes in (counts, counts * widths))
        self.slots = [slice(int(a), int(b)) for a, b in pairwise(slots)]
        self.rows = [slice(int(a), int(b)) for a, b in pairwise(rows)]
        lengths = np.repeat(widths, counts)
        self.once = np.ones(classes.slots, dtype=np.int64)  # rows of each root in a layer that acts once per root
        self.owner = torch.from_numpy(np.repeat(np.arange(classes.slots), lengths)).to(device)  # slot of each row
        self.first = torch.from_numpy(np.cumsum(lengths) - lengths).to(device)  # row of each slot's root
        self.columns = torch.arange(classes.widths[-1], device=device)

    @property
    def alone(self) -> bool:
        """True if every tree is its root."""
        return self.classes.widths == (1,)

    def padded(self, rows: Tensor) -> list[Tensor]:
        """Return views (slots, width, d) of rows (n, d), one for each class."""
        widths = self.classes.widths
        return [rows[own].view(-1, width, rows.shape[1]) for own, width in zip(self.rows, widths, strict=True)]

    def per_row(self, values: Tensor) -> Tensor:
        """Return values (slots,) as (n,), one for each row."""
        return values if self.alone else values.index_select(0, self.owner)


@dataclass(frozen=True)
class SlotBatch:
    """The trees in the slots of one step."""

    layout: SlotLayout
    table: TreeTable
    ranks: Tensor  # (slots,) of each slot's root in the table

    @cached_property
    def nodes(self) -> Tensor:
        """(n,) the node id of each row."""
        classes, table = self.layout.classes, self.table.nodes
        picked = [
            table[:, :width].index_select(0, self.ranks[own]).flatten()
            for own, width in zip(self.layout.slots, classes.widths, strict=True)
        ]
        return _joined(picked)

    @cached_property
    def labels(self) -> Tensor:
        return self.table.labels.index_select(0, self.ranks)

    @cached_property
    def sizes(self) -> Tensor:
        """(slots, 1) int64, the rows of each tree."""
        return self.table.sizes.index_select(0, self.ranks).unsqueeze(1)

    def segments(self, like: Tensor) -> SlotSegments:
        """Return the segments of the layer that reads all rows of a tree, in the type of `like`."""
        layout = self.layout
        there = [
            (layout.columns[:width] < self.sizes[own]).to(like.dtype).unsqueeze(2)
            for own, width in zip(layout.slots, layout.classes.widths, strict=True)
        ]
        return SlotSegments(layout, there, self.sizes.to(like.dtype))


@dataclass(frozen=True)
class SlotSegments:
    """The methods of `models.segments.Segments` that message-passing layers call, over slots."""

    layout: SlotLayout
    there: Sequence[Tensor]  # for each class (slots, width, 1): 1 for a row of the tree, 0 for padding
    sizes: Tensor  # (slots, 1)

    def own(self, rows: Tensor) -> Tensor:
        return rows.index_select(0, self.layout.first)

    def sum(self, rows: Tensor) -> Tensor:
        parts = zip(self.layout.padded(rows), self.there, strict=True)
        return _joined([(some * there).sum(1) for some, there in parts])

    def mean(self, rows: Tensor) -> Tensor:
        return self.divided(self.sum(rows))

    def divided(self, values: Tensor) -> Tensor:
        """Divide values by the rows of each tree, in place."""
        return values.div_(self.sizes)

    def spread(self, gradient: Tensor) -> Tensor:
        parts = zip(self.layout.slots, self.there, strict=True)
        return _joined([(gradient[own].unsqueeze(1) * there).flatten(0, 1) for own, there in parts])

    def add_own(self, spread: Tensor, own: Tensor) -> Tensor:
        return spread.index_add_(0, self.layout.first, own)


class AloneSegments:
    """The segments of roots that read only themselves."""

    def own(self, rows: Tensor) -> Tensor:
        return rows

    sum = mean = divided = spread = own

    def add_own(self, spread: Tensor, own: Tensor) -> Tensor:
        return spread + own


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
