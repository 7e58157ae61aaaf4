"""Who sends its row to whom, and the sum of what a node is sent.

The list of a node is part of its record: it says to whom the node sends. Every row of the arrays here belongs to one
record; nothing but `received` mixes records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.engine.sampling.edge_lists import PROPOSE, smallest_in_group
from dpgraph.families.votes.ballots import GRID, Ballots, BoundedBallots


@dataclass(frozen=True)
class Senders:
    """Lists as sets of others' ids, and which nodes send."""

    lists: sp.csr_matrix  # (N, N) 1 where the owner sends to the node
    sends: np.ndarray  # (N,) bool: nodes with a record

    @classmethod
    def whole(cls, ptr: np.ndarray, idx: np.ndarray, sends: np.ndarray) -> Senders:
        """To all of the own list; what is no set of others' ids is made one (`Ballots.of`)."""
        return cls(Ballots.of(ptr, idx, sends, 1).lists, sends)

    @classmethod
    def capped(cls, ptr: np.ndarray, idx: np.ndarray, sends: np.ndarray, receivers: int, key: int) -> Senders:
        """To the D = `receivers` of the own list with the smallest priorities, pseudorandom functions of the public
        (key, owner, member): a uniform choice without replacement, of each owner by itself."""
        lists = cls.whole(ptr, idx, sends).lists
        owners = np.repeat(np.arange(len(sends), dtype=np.int32), np.diff(lists.indptr))
        kept = smallest_in_group(owners, lists.indices, receivers, len(sends), key, PROPOSE)
        ends = np.concatenate([[0], np.cumsum(np.bincount(owners[kept], minlength=len(sends)))])
        return cls(sp.csr_matrix((lists.data[kept], lists.indices[kept], ends), shape=lists.shape), sends)

    @classmethod
    def bounded(cls, ptr: np.ndarray, idx: np.ndarray, sends: np.ndarray, receivers: int) -> Senders:
        """Over edges that are in both ends' lists. Raises UserError where a list breaks the schema of the guarantee."""
        return cls(BoundedBallots.under(Ballots.of(ptr, idx, sends, 1), receivers, 0.0).lists, sends)

    def received(self, rows: np.ndarray) -> np.ndarray:
        """(N, d) float64: to each node, the rows (N, d) of all that send to it, each scaled to norm 1.

        A row that is zero or not finite, and that of a node without a record, is zero. Rounding is towards zero, so
        that no norm exceeds 1.
        """
        unit = unit_rows(rows)
        unit[~self.sends] = 0
        return np.asarray(self.lists.T @ (np.trunc(unit * GRID) / GRID))
