"""Rows of weights over nodes: a root's logits are a weighted sum of those of single records (Zhang 2021, Eq. 5.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class PaddedRows:
    """Rows of weights as arrays of L places: first the root, with weight 0 where its row does not name it, then others.

    Places that are left over name the root again, with weight 0, so that no more roots depend on a node.
    """

    roots: np.ndarray  # (M,) int64 node ids
    nodes: np.ndarray  # (M, L) int64 node ids
    weights: np.ndarray  # (M, L) float64

    @classmethod
    def of(cls, weights: sp.csr_matrix, roots: np.ndarray, length: int) -> PaddedRows:
        """Pack `weights` (M, n) of the `roots` into `length` = L places.

        Raises ValueError for a row of more than L - 1 others.
        """
        roots = np.asarray(roots, dtype=np.int64)
        entries = weights.tocoo()
        nodes, padded = np.repeat(roots[:, None], length, axis=1), np.zeros((len(roots), length))
        own = entries.col == roots[entries.row]
        padded[entries.row[own], 0] = entries.data[own]
        order = np.lexsort((entries.col[~own], entries.row[~own]))
        owner = entries.row[~own][order]
        counts = np.bincount(owner, minlength=len(roots))
        if counts.max(initial=0) >= length:
            raise ValueError(f"a row names {counts.max()} other nodes: expected at most {length - 1}")
        place = 1 + np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes[owner, place], padded[owner, place] = entries.col[~own][order], entries.data[~own][order]
        return cls(roots, nodes, padded)
