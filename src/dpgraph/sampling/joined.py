"""Ego trees of several seeds in one batch: trees share nothing, so it does not matter whose neighbours they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import torch

from dpgraph.sampling.ego import EgoBatch, EgoTrees, Hop


@dataclass(frozen=True)
class JoinedBatch:
    """Roots of G seeds, those of one seed after those of another; every seed has some."""

    batch: EgoBatch
    seeds: tuple[int, ...]  # (G,) ascending
    bounds: np.ndarray  # (G + 1,) roots of the g-th are bounds[g] : bounds[g + 1]


def joined_chunks(trees: Sequence[EgoTrees], positions: Sequence[np.ndarray]) -> Iterator[JoinedBatch]:
    """The batch at `positions[s]` of `trees[s]` for each seed s, in pieces as large as those of one seed alone."""
    pieces = [
        replace(one, chunk_rows=max(1, one.chunk_rows // len(trees))).chunks(drawn)
        for one, drawn in zip(trees, positions, strict=True)
    ]
    for batches in zip_longest(*pieces):
        present = {seed: batch for seed, batch in enumerate(batches) if batch is not None}
        yield JoinedBatch(
            _joined(list(present.values())),
            tuple(present),
            np.cumsum([0, *(batch.num_roots for batch in present.values())]),
        )


def _joined(batches: list[EgoBatch]) -> EgoBatch:
    rows = [_before(sizes) for sizes in zip(*(batch.sizes for batch in batches), strict=True)]
    return EgoBatch(
        roots=torch.cat([batch.roots for batch in batches]),
        nodes=torch.cat([batch.nodes for batch in batches]),
        own=torch.cat([batch.own + before for batch, before in zip(batches, rows[-1], strict=True)]),
        sizes=tuple(np.concatenate(sizes) for sizes in zip(*(batch.sizes for batch in batches), strict=True)),
        hops=tuple(
            _joined_hop(hops, below)
            for hops, below in zip(zip(*(batch.hops for batch in batches), strict=True), rows[1:], strict=True)
        ),
        places=np.concatenate([batch.places for batch in batches]),
    )


def _joined_hop(hops: Sequence[Hop], below: list[int]) -> Hop:
    """`below` (G,): rows of the next level that precede those of each batch."""
    listed = [hop.columns for hop in hops if hop.columns is not None]
    entries = _before(listed) if listed else below
    ptr = torch.cat([hops[0].ptr[:1], *(hop.ptr[1:] + before for hop, before in zip(hops, entries, strict=True))])
    if not listed:
        return Hop(ptr, None)
    return Hop(ptr, torch.cat([columns + before for columns, before in zip(listed, below, strict=True)]))


def _before(parts: Sequence[np.ndarray] | Sequence[torch.Tensor]) -> list[int]:
    """Sums of the sizes (arrays) or numbers of entries (tensors) of the parts before each."""
    totals = [int(part.sum()) if isinstance(part, np.ndarray) else len(part) for part in parts]
    return [0, *np.cumsum(totals)[:-1].tolist()]
