"""One ego tree as dense matrices of a fixed size, so that `torch.func.vmap` can run a network on many at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.sampling.ego import EgoBatch, EgoTrees

MOST_TREES = 32  # of a stack: beyond, gradients of all parameters for each root leave the cache


@dataclass(frozen=True)
class PaddedSegments:
    """`Segments` of one tree from a matrix; nothing but differentiable operations of PyTorch."""

    reads: Tensor  # (n, num_rows) 1 where a segment holds a row, else 0
    first: Tensor  # (n,) int64 the row of each segment's own node
    lengths: None = None

    @property
    def alone(self) -> bool:
        return self.reads.shape == (1, 1)

    def own(self, rows: Tensor) -> Tensor:
        return rows[self.first]

    def sum(self, rows: Tensor) -> Tensor:
        return self.reads @ rows

    def mean(self, rows: Tensor) -> Tensor:
        return self.reads @ rows / self.reads.sum(1, keepdim=True)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(n, H, d) queries, (num_rows, H, d) keys and values -> (n, H, d)."""
        scores = torch.einsum("ihd,jhd->hij", queries, keys)
        weights = torch.where(self.reads > 0, scores, -torch.inf).softmax(2)
        return torch.einsum("hij,jhd->ihd", weights, values)


@dataclass(frozen=True)
class PaddedTrees:
    """Trees of B roots, or inside of vmap one of them, without the leading B; networks read it as an `EgoBatch`.

    A row that pads repeats the root's own node and reads row 0; nothing reads it.
    """

    roots: Tensor  # (B, 1) node ids
    nodes: Tensor  # (B, n_r) node ids of the deepest level
    own: Tensor  # (B, 1) row of the root in the deepest level
    reads: tuple[Tensor, ...]  # per level 0..r-1, (B, n_l, n_{l+1})
    first: tuple[Tensor, ...]  # per level 0..r-1, (B, n_l)

    def segments(self, level: int) -> PaddedSegments:
        return PaddedSegments(self.reads[level], self.first[level])

    def without_messages(self) -> PaddedTrees:
        """Inside of vmap."""
        alone = torch.zeros_like(self.own)
        hops = len(self.reads)
        ones = self.reads[0].new_ones(1, 1) if hops else None
        return PaddedTrees(self.roots, self.roots, alone, (ones,) * hops, (alone,) * hops)  # type: ignore[arg-type]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.roots, self.nodes, self.own, *self.reads, *self.first)

    @classmethod
    def of_tensors(cls, roots: Tensor, nodes: Tensor, own: Tensor, *hops: Tensor) -> PaddedTrees:
        """From `tensors`, each with or without the leading B."""
        half = len(hops) // 2
        return cls(roots, nodes, own, hops[:half], hops[half:])


def padded_stacks(
    trees: EgoTrees, positions: np.ndarray, dtype: torch.dtype
) -> Iterator[tuple[np.ndarray, PaddedTrees]]:
    """The batch in stacks of similar sizes: (places in `positions`, trees). Padding less than doubles a tree's rows."""
    sizes = trees.tree_sizes[positions]
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    kind = np.stack([np.cumsum(ordered) // trees.chunk_rows, np.log2(np.maximum(ordered, 1)).astype(np.int64)])
    for same in np.split(order, np.flatnonzero(np.diff(kind).any(0)) + 1):
        for places in np.split(same, range(MOST_TREES, len(same), MOST_TREES)):
            if len(places):
                yield places, _padded(trees.batch(positions[places]), dtype)


def _padded(batch: EgoBatch, dtype: torch.dtype) -> PaddedTrees:
    levels = [_Places.of(sizes, batch.roots.device) for sizes in batch.sizes]
    deepest = levels[-1]
    nodes = batch.roots.unsqueeze(1).repeat(1, deepest.width)
    nodes[deepest.owner, deepest.within] = batch.nodes
    reads, first = [], []
    for level, hop in enumerate(batch.hops):
        above, below = levels[level], levels[level + 1]
        lengths = hop.ptr.diff()
        rows = torch.arange(len(below.owner), device=nodes.device) if hop.columns is None else hop.columns
        entry = torch.repeat_interleave(torch.arange(len(lengths), device=nodes.device), lengths)
        matrix = torch.zeros(batch.num_roots, above.width, below.width, dtype=dtype, device=nodes.device)
        padding = torch.ones(batch.num_roots, above.width, dtype=torch.bool, device=nodes.device)
        padding[above.owner, above.within] = False
        matrix[..., 0] = padding.to(dtype)
        matrix[above.owner[entry], above.within[entry], below.within[rows]] = 1
        own = torch.zeros(batch.num_roots, above.width, dtype=torch.int64, device=nodes.device)
        own[above.owner, above.within] = below.within[rows[hop.ptr[:-1]]]
        reads.append(matrix)
        first.append(own)
    own = deepest.within[batch.own].unsqueeze(1)
    return PaddedTrees(batch.roots.unsqueeze(1), nodes, own, tuple(reads), tuple(first))


@dataclass(frozen=True)
class _Places:
    """Where the packed rows of one level go: tree and row of it."""

    owner: Tensor  # (n,)
    within: Tensor  # (n,)
    width: int  # rows of the largest tree

    @classmethod
    def of(cls, sizes: np.ndarray, device: torch.device) -> _Places:
        owner = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls(torch.from_numpy(owner).to(device), torch.from_numpy(within).to(device), int(sizes.max()))
