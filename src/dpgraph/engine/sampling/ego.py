"""Ego trees of the roots, packed: rows of all trees one after the other, without padding and without truncation.

A tree of depth r (DFS-TREE, Algorithm 2 of Daigavane et al.) is the input of an r-layer GNN that classifies its root.
Level l holds the rows whose states layer r - l computes: level 0 the root; level 1 {v} and its list E_v; level 2 the
distinct nodes of {u} and E_u over all u of level 1. A level-l row averages its *segment*: the level-(l + 1) rows of {u}
and E_u. Trees share no row, so that the gradient of one root stays separate from all others. A node that occurs on
several paths of one tree has one row per level, which is exact because its state depends on its id and the lists only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.compiled import WORTH
from dpgraph.core.errors import UserError, invalid
from dpgraph.engine.sampling.edge_lists import EdgeLists, contiguous, offsets, ranges

MAX_HOPS = 2
MAX_ROWS = 2**29  # 4 GiB of node ids
CHUNK_ROWS_CPU = 16384  # rows of a piece: fewer calls of PyTorch against more memory
CHUNK_ROWS_CUDA = 1 << 20
ROOT_ROWS = 4  # what a root's own layers hold, in rows of the encoder


@dataclass(frozen=True)
class Hop:
    """Row i of a level averages the rows `columns[ptr[i] : ptr[i + 1]]` of the next level."""

    ptr: Tensor  # (n_l + 1,) int64
    columns: Tensor | None  # (m_l,) int64; None: 0, 1, 2, ..., every row once


@dataclass(frozen=True)
class EgoBatch:
    """Ego trees of B roots on one device; the rows of a root are consecutive in every level."""

    roots: Tensor  # (B,) int64 node ids
    nodes: Tensor  # (n_r,) int64 node ids of the deepest level: the rows of the encoder
    own: Tensor  # (B,) int64 row of each root itself in the deepest level
    sizes: tuple[np.ndarray, ...]  # per level 0..r, (B,) int64 on the host: rows of each root
    hops: tuple[Hop, ...]  # per level 0..r-1
    places: np.ndarray  # (B,) int64: where each root is in the batch that was requested

    @property
    def num_roots(self) -> int:
        return len(self.places)

    def without_messages(self) -> EgoBatch:
        """Return the same roots, each alone: a function of a node's own record, whatever its neighbours and degree."""
        ones = np.ones(self.num_roots, dtype=np.int64)
        alone = torch.arange(self.num_roots + 1, device=self.roots.device)
        hop = Hop(alone, None)
        return EgoBatch(
            self.roots, self.roots, alone[:-1], (ones,) * len(self.sizes), (hop,) * len(self.hops), self.places
        )


@dataclass(frozen=True)
class EgoTrees:
    """Ego trees of all roots, stored by ascending size; large arrays are on `device`, the rest on the host.

    Memory grows with the total number of rows: at most N(K, r) per node for lists with occurrence bound K.
    """

    hops: int
    rank: np.ndarray  # (R,) position in the stored order of each root in the given order
    roots: Tensor  # (R,) node ids, stored order
    row_ptr: tuple[np.ndarray, ...]  # per level 0..r, (R + 1,) host
    entry_ptr: tuple[np.ndarray, ...]  # per level 0..r-1, (R + 1,) host: segment entries of each root
    nodes: Tensor  # rows of the deepest level, node ids
    own: np.ndarray  # (R,) host, which of its own rows of the deepest level is the root, stored order
    segment_ptr: tuple[Tensor, ...]  # per level 0..r-1, (n_l + 1,)
    columns: tuple[Tensor | None, ...]  # per level 0..r-1, within the root's own rows; None: 0, 1, 2, ...
    chunk_rows: int
    lists: EdgeLists  # what the trees follow, bounds checked

    @property
    def num_roots(self) -> int:
        return len(self.rank)

    @property
    def device(self) -> torch.device:
        return self.roots.device

    @property
    def tree_sizes(self) -> np.ndarray:
        """(R,) the number of rows of the deepest level of each root, in the given order."""
        return np.diff(self.row_ptr[-1])[self.rank]

    def rows_at(self, positions: np.ndarray) -> int:
        """Return the number of deepest rows of the roots at `positions` (in the order given to `pack_ego_trees`)."""
        ranks = self.rank[positions]
        return int((self.row_ptr[-1][ranks + 1] - self.row_ptr[-1][ranks]).sum())

    def nodes_at(self, positions: np.ndarray) -> np.ndarray:
        """Return the node ids of those rows, root by root; for trees on the host."""
        ranks = self.rank[positions]
        begin = self.row_ptr[-1][ranks]
        return self.nodes.numpy()[ranges(begin, self.row_ptr[-1][ranks + 1] - begin)]  # type: ignore[no-any-return]

    def batch(self, positions: np.ndarray) -> EgoBatch:
        """Return the trees of the roots at `positions` (in the order given to `pack_ego_trees`), in that order."""
        return self._slice(self.rank[positions], np.arange(len(positions)))

    def chunks(self, positions: np.ndarray) -> Iterator[EgoBatch]:
        """Yield the batch in pieces of about equal memory, roots by ascending size; `places` keeps the order.

        A piece has at most about `chunk_rows` rows, where a root counts as `ROOT_ROWS` more.
        """
        ranks = self.rank[positions]
        places = np.argsort(ranks, kind="stable")
        ranks = ranks[places]
        rows = self.row_ptr[-1][ranks + 1] - self.row_ptr[-1][ranks]
        for first, last in pairwise([0, *_cuts(rows, self.chunk_rows).tolist(), len(ranks)]):
            if first < last:
                yield self._slice(ranks[first:last], places[first:last])

    def _slice(self, ranks: np.ndarray, places: np.ndarray) -> EgoBatch:
        return self._host_slice(ranks, places) if self.device.type == "cpu" else self._device_slice(ranks, places)

    def _host_slice(self, ranks: np.ndarray, places: np.ndarray) -> EgoBatch:
        """Return a batch on the host, where numpy's calls cost half of PyTorch's."""
        begin = [ptr[ranks] for ptr in self.row_ptr]
        sizes = tuple(ptr[ranks + 1] - first for ptr, first in zip(self.row_ptr, begin, strict=True))
        starts = [offsets(lengths) for lengths in sizes]
        hops = []
        for level, columns in enumerate(self.columns):
            if columns is None:
                hops.append(Hop(torch.from_numpy(starts[level + 1]), None))
                continue
            above, segments = ranges(begin[level], sizes[level]), self.segment_ptr[level].numpy()
            ptr = offsets(segments[above + 1] - segments[above])
            first = self.entry_ptr[level][ranks]
            entries = self.entry_ptr[level][ranks + 1] - first
            moved = columns.numpy()[ranges(first, entries)]
            moved += np.repeat(starts[level + 1][:-1], entries)
            hops.append(Hop(torch.from_numpy(ptr), torch.from_numpy(moved)))
        nodes = self.nodes.numpy()[ranges(begin[-1], sizes[-1])]
        own = starts[-1][:-1] + self.own[ranks]
        roots, rows, alone = (torch.from_numpy(array) for array in (self.roots.numpy()[ranks], nodes, own))
        return EgoBatch(roots, rows, alone, sizes, tuple(hops), places)

    def _device_slice(self, ranks: np.ndarray, places: np.ndarray) -> EgoBatch:
        """Return a batch on the trees' device: uploads grow with the roots, not with their rows."""
        sizes = tuple(ptr[ranks + 1] - ptr[ranks] for ptr in self.row_ptr)
        hops = []
        for level in range(self.hops):
            entries = self.entry_ptr[level][ranks + 1] - self.entry_ptr[level][ranks]
            if self.columns[level] is None:
                hops.append(Hop(upload(offsets(sizes[level + 1]), self.device), None))
                continue
            rows = self._flat(self.row_ptr[level][ranks], sizes[level])
            lengths = self.segment_ptr[level][rows + 1] - self.segment_ptr[level][rows]
            ptr = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0))
            picked = self._flat(self.entry_ptr[level][ranks], entries)
            shift = self._repeat(offsets(sizes[level + 1])[:-1], entries)
            hops.append(Hop(ptr, self.columns[level][picked] + shift))  # type: ignore[index]
        nodes = self.nodes[self._flat(self.row_ptr[-1][ranks], sizes[-1])]
        own = upload(offsets(sizes[-1])[:-1] + self.own[ranks], self.device)
        return EgoBatch(self.roots[upload(ranks, self.device)], nodes, own, sizes, tuple(hops), places)

    def _flat(self, starts: np.ndarray, lengths: np.ndarray) -> Tensor:
        """Return the positions of the ranges [start, start + length), one after the other."""
        return self._repeat(starts - offsets(lengths)[:-1], lengths) + self._arange(int(lengths.sum()))

    def _repeat(self, values: np.ndarray, lengths: np.ndarray) -> Tensor:
        total = int(lengths.sum())
        return torch.repeat_interleave(upload(values, self.device), upload(lengths, self.device), output_size=total)

    def _arange(self, length: int) -> Tensor:
        return torch.arange(length, device=self.device)


def upload(values: np.ndarray, device: torch.device) -> Tensor:
    """Return an array on the device, without waiting for it."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, non_blocking=True)


def pack_ego_trees(
    lists: EdgeLists, roots: np.ndarray, hops: int, device: str | torch.device = "cpu", chunk_rows: int | None = None
) -> EgoTrees:
    """Build the trees of all roots.

    Args:
        lists: The lists that the trees follow; their stated bounds are checked.
        roots: (R,) node ids.
        hops: Depth r: 0, 1 or 2.
        device: Where the large arrays are stored.
        chunk_rows: Rows of a piece of a batch; by default those that suit the device.

    Returns:
        The trees, by ascending size.

    Raises:
        UserError: Another depth, or more rows than fit in memory.
        NotAsAccounted: The lists break the bounds that they state.
    """
    if not 0 <= hops <= MAX_HOPS:
        raise invalid("hops", hops, f"an integer in 0..{MAX_HOPS}")
    device = torch.device(device)
    roots = np.asarray(roots, dtype=np.int64)
    pack = _packed_by_loops if hops and len(roots) + _entries(lists, roots) >= WORTH else _packed
    packed = pack(lists, roots, hops)
    rank = np.empty(len(roots), dtype=np.int64)
    rank[packed.order] = np.arange(len(roots))
    if chunk_rows is None:
        chunk_rows = CHUNK_ROWS_CUDA if device.type == "cuda" else CHUNK_ROWS_CPU
    return EgoTrees(
        hops=hops,
        rank=rank,
        roots=torch.from_numpy(roots[packed.order]).to(device),
        row_ptr=packed.row_ptr,
        entry_ptr=tuple(ptr[packed.row_ptr[level]] for level, ptr in enumerate(packed.segment_ptr)),
        nodes=torch.from_numpy(packed.nodes).to(device),
        own=packed.own,
        segment_ptr=tuple(torch.from_numpy(ptr).to(device) for ptr in packed.segment_ptr),
        columns=tuple(None if c is None else torch.from_numpy(c).to(device) for c in packed.columns),
        chunk_rows=chunk_rows,
        lists=lists.checked(),
    )


def _cuts(rows: np.ndarray, limit: int) -> np.ndarray:
    """Return where to cut roots of these `rows` into few pieces of about `limit`, of about equal cost."""
    if not len(rows):
        return rows
    before = np.cumsum(rows + ROOT_ROWS)
    total = int(before[-1])
    if total <= limit:
        return rows[:0]
    return np.flatnonzero(np.diff((before - rows - ROOT_ROWS) * -(-total // limit) // total)) + 1


@dataclass(frozen=True)
class _Packed:
    """The arrays of `EgoTrees` of the same names, all on the host, and the order in which roots are stored."""

    order: np.ndarray  # (R,) positions in the given order
    row_ptr: tuple[np.ndarray, ...]
    nodes: np.ndarray
    own: np.ndarray
    segment_ptr: tuple[np.ndarray, ...] = ()
    columns: tuple[np.ndarray | None, ...] = ()


def _packed(lists: EdgeLists, roots: np.ndarray, hops: int) -> _Packed:
    levels = _levels(lists, roots, hops)
    order = np.lexsort([np.diff(ptr) for ptr, _ in levels[1:]] or [np.zeros(len(roots))])
    levels = [_reordered(level, order) for level in levels]
    row_ptr, nodes = tuple(ptr for ptr, _ in levels), levels[-1][1]
    own = np.zeros(len(roots), dtype=np.int64)
    if hops == 0:
        return _Packed(order, row_ptr, nodes, own)
    if hops == 1:
        return _Packed(order, row_ptr, nodes, own, (row_ptr[1],), (None,))
    entries_ptr, entries = _closed_lists(lists, levels[1][1])
    owner = np.repeat(np.arange(len(roots)), np.diff(entries_ptr[row_ptr[1]]))
    places = np.searchsorted(_keys(lists, levels[2]), owner * np.int64(lists.num_nodes) + entries)
    within = places - row_ptr[2][owner]
    own = within[entries_ptr[row_ptr[1][:-1]]]  # a closed list starts with its owner, and level 1 with the root
    return _Packed(order, row_ptr, nodes, own, (row_ptr[1], entries_ptr), (None, within))


def _packed_by_loops(lists: EdgeLists, roots: np.ndarray, hops: int) -> _Packed:
    """Pack trees of depth 1 or 2 by compiled loops, for many rows; the result equals that of `_packed`."""
    from dpgraph.engine.sampling.tree_loops import arrange, collect, count_entries, fill_lists

    csr = contiguous(lists.ptr, lists.idx)
    rows = csr[0][roots + 1] - csr[0][roots] + 1
    _check_rows(int(rows.sum()))
    own = np.zeros(len(roots), dtype=np.int64)
    if hops == 1:
        order = _ascending(rows)
        ptr = offsets(rows[order])
        nodes = np.empty(ptr[-1], dtype=np.int64)
        fill_lists(*csr, roots[order], nodes)
        return _Packed(order, (np.arange(len(roots) + 1), ptr), nodes, own, (ptr,), (None,))
    counts, sizes = np.empty(len(roots), dtype=np.int64), np.empty(len(roots), dtype=np.int64)
    count_entries(*csr, roots, counts)
    total = int(counts.sum())
    _check_rows(total)
    place, lengths = np.zeros(lists.num_nodes, dtype=np.int32), np.empty(rows.sum(), dtype=np.int32)
    entries, distinct = np.empty(total, dtype=np.int32), np.empty(total + 1, dtype=np.int32)
    collect(*csr, roots, place, lengths, entries, distinct, sizes)
    order = _ascending(rows, sizes)
    rank = np.empty(len(roots), dtype=np.int64)
    rank[order] = np.arange(len(roots))
    row_ptr, deep_ptr, entry_ptr = (offsets(lengths[order]) for lengths in (rows, sizes, counts))
    nodes, within = np.empty(deep_ptr[-1], dtype=np.int64), np.empty(total, dtype=np.int64)
    entries_ptr, ranks = np.zeros(len(lengths) + 1, dtype=np.int64), np.empty(sizes.max(initial=0), dtype=np.int32)
    arrange(
        rank, row_ptr, deep_ptr, entry_ptr, lengths, entries, distinct, place, ranks, nodes, entries_ptr, within, own
    )
    all_ptr = (np.arange(len(roots) + 1), row_ptr, deep_ptr)
    return _Packed(order, all_ptr, nodes, own, (row_ptr, entries_ptr), (None, within))


def _ascending(*keys: np.ndarray) -> np.ndarray:
    """Return np.lexsort of natural numbers by compiled loops; the largest is about as large as their count."""
    from dpgraph.engine.sampling.tree_loops import order_by

    order = np.arange(len(keys[0]))
    for key in keys:
        order_by(key, np.zeros(int(key.max(initial=0)) + 1, dtype=np.int64), order)
    return order


Level = tuple[np.ndarray, np.ndarray]  # (R + 1,) row pointers of the roots, (n,) node ids


def _levels(lists: EdgeLists, roots: np.ndarray, hops: int) -> list[Level]:
    levels = [(np.arange(len(roots) + 1), roots)]
    if hops >= 1:
        levels.append(_closed_lists(lists, roots))
    if hops == MAX_HOPS:
        ptr, rows = levels[1]
        entries_ptr, nodes = _closed_lists(lists, rows)
        owner = np.repeat(np.arange(len(roots)), np.diff(entries_ptr[ptr]))
        keys = np.sort(owner * np.int64(lists.num_nodes) + nodes)  # numpy's unique hashes, ten times slower
        distinct = keys[np.diff(keys, prepend=-1) > 0]
        sizes = np.bincount(distinct // lists.num_nodes, minlength=len(roots))
        levels.append((offsets(sizes), distinct % lists.num_nodes))
    return levels


def _reordered(level: Level, order: np.ndarray) -> Level:
    """Return the same rows with the roots in another order."""
    ptr, rows = level
    lengths = np.diff(ptr)[order]
    return offsets(lengths), rows[ranges(ptr[order], lengths)]


def _keys(lists: EdgeLists, level: Level) -> np.ndarray:
    owner = np.repeat(np.arange(len(level[0]) - 1), np.diff(level[0]))
    return owner * np.int64(lists.num_nodes) + level[1]


def closed_hop(lists: EdgeLists, device: str | torch.device = "cpu") -> Hop:
    """Return every node's list and the node itself, by id: one layer of message passing on the whole graph."""
    level = _closed_lists(lists, np.arange(lists.num_nodes))
    return Hop(torch.from_numpy(level[0]).to(device), torch.from_numpy(level[1]).to(device))


def _closed_lists(lists: EdgeLists, nodes: np.ndarray) -> Level:
    """Return {u} and E_u of each of `nodes`, u first."""
    start = lists.ptr[nodes]
    lengths = lists.ptr[nodes + 1] - start + 1
    ptr = offsets(lengths)
    _check_rows(int(ptr[-1]))
    position = np.arange(ptr[-1]) + np.repeat(start - 1 - ptr[:-1], lengths)
    rows = np.empty(int(ptr[-1]), dtype=np.int64)
    own = ptr[:-1]
    listed = np.ones(len(rows), dtype=bool)
    listed[own] = False
    rows[own] = nodes
    rows[listed] = lists.idx[position[listed]]
    return ptr, rows


def _check_rows(rows: int) -> None:
    if rows > MAX_ROWS:
        raise UserError(f"ego trees have {rows} rows: expected at most {MAX_ROWS} (choose a smaller max_degree)")


def _entries(lists: EdgeLists, nodes: np.ndarray) -> int:
    return int((lists.ptr[nodes + 1] - lists.ptr[nodes]).sum())
