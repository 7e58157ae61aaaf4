"""Neighbourhoods of the nodes of a block, for norms of the gradients of single nodes in Kipf's GCN.

With a_v = W2 e_v, e_v the error of node v's logits and s_u the slope of the hidden layer at u, dropout included, the
gradient of v's loss is, with (x, 1) for a bias,

    W2, b2: (m_v, 1) e_v',  m_v = sum_u A^_vu h_u            W1, b1: sum_u A^_vu (p_u, 1) (s_u a_v)',  p = A^ X

(products of vectors of one length are entrywise). The squared norm of the second is sum_uw G_uw <r_u, r_w> with
r_u = A^_vu s_u a_v and G_uw = <p_u, p_w> + 1, which the data alone decide. So no gradient of a single node is formed:
what costs time and memory are the pairs (u, w) of neighbours of each node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.errors import UserError
from dpgraph.engine.models.sparse import Bags, Matrix, SparseMatrix

MOST_PAIRS = 1 << 25  # of one block, padding included: 256 MB of inner products
PIECE = 1 << 22  # numbers that are gathered at once
COLUMNS = 256  # features at once
GROWTH = 1.2  # from one length of padded neighbourhoods to the next


@dataclass(frozen=True)
class Neighbourhoods:
    """Of b nodes with up to d neighbours each, themselves included."""

    nodes: Tensor  # (b,) int64 places among the block's nodes
    members: Tensor  # (b, d) int64 rows of the hidden layer; 0 where padded
    weights: Tensor  # (b, d) float64 A^_vu; 0 where padded
    gram: Tensor  # (b, d, d) float64 G; 0 where padded
    # (b,) float64 sum_u A^_vu (sum_w A^_uw |x_w| + 1): lengths of all that is added up, which rounding is relative to
    reach: Tensor

    def squares(self, backs: Tensor, slopes: Tensor) -> Tensor:
        """(b,) squared norms of the gradients for W1 and b1; `backs` (n, width) a_v, `slopes` (k, width) s_u."""
        weighted = self.weights.to(backs.dtype).unsqueeze(2) * backs[self.nodes].unsqueeze(1)
        rows = slopes[self.members].mul_(weighted)
        return torch.bmm(rows, rows.mT).mul_(self.gram.to(backs.dtype)).sum((1, 2)).clamp_min_(0)


def neighbourhoods(features: Matrix, inner: SparseMatrix, outer: SparseMatrix) -> tuple[Neighbourhoods, ...]:
    """All nodes of a block by the size of their neighbourhoods. Raises UserError beyond `MOST_PAIRS` pairs.

    `features` (m, F), `inner` (k, m) and `outer` (n, k) are those of the block.
    """
    rows = outer.rows
    sizes = np.diff(rows.ptr.cpu().numpy())
    ladder = _ladder(int(sizes.max(initial=1)))
    padded = ladder[np.searchsorted(ladder, sizes)]
    pairs = int((padded.astype(np.int64) ** 2).sum())
    if pairs > MOST_PAIRS:
        raise UserError(
            f"the gradient of each node: found {pairs} pairs of neighbours of the same node: expected at most "
            f"{MOST_PAIRS}; take more splits, a smaller train_share, or a graph of smaller degrees"
        )
    pieces = []
    for size in np.unique(padded).tolist():
        nodes = np.flatnonzero(padded == size)
        per_piece = max(1, PIECE // (size * max(size, COLUMNS)))
        for start in range(0, len(nodes), per_piece):
            pieces.append(_gathered(rows, nodes[start : start + per_piece], size))
    return _with_products(features, inner, pieces)


def _ladder(most: int) -> np.ndarray:
    """1, 2, 3, 4, 5, 6, 8, 10, ...: lengths to which neighbourhoods are padded."""
    steps = [1]
    while steps[-1] < most:
        steps.append(max(steps[-1] + 1, int(GROWTH * steps[-1])))
    return np.array(steps)


def _gathered(rows: Bags, nodes: np.ndarray, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes, members and weights of one piece."""
    chosen = torch.from_numpy(nodes).to(rows.ptr.device)
    first, end = rows.ptr[chosen].long(), rows.ptr[chosen + 1].long()
    places = first.unsqueeze(1) + torch.arange(size, device=first.device)
    held = places < end.unsqueeze(1)
    places = torch.where(held, places, first.unsqueeze(1))
    members = torch.where(held, rows.columns[places].long(), 0)
    return chosen, members, torch.where(held, rows.values[places].double(), 0.0)


def _with_products(
    features: Matrix, inner: SparseMatrix, pieces: list[tuple[Tensor, Tensor, Tensor]]
) -> tuple[Neighbourhoods, ...]:
    """Inner products of rows (p_u, 1), a few features at once, in float64."""
    grams = [weights.new_ones(*weights.shape, weights.shape[1]) for _, _, weights in pieces]
    squares = torch.zeros(features.shape[0], dtype=torch.float64, device=inner.rows.values.device)
    for start in range(0, features.shape[1], COLUMNS):
        columns = features.dense_columns(start, min(start + COLUMNS, features.shape[1])).double()
        squares += columns.square().sum(1)
        mixed = inner.times(columns)
        for (_, members, _), gram in zip(pieces, grams, strict=True):
            gathered = mixed[members]
            gram += torch.bmm(gathered, gathered.mT)
    reach = inner.times(squares.sqrt_().unsqueeze(1)).squeeze(1) + 1  # A^ has no negative entry
    found = []
    for (nodes, members, weights), gram in zip(pieces, grams, strict=True):
        held = weights > 0  # what is padded stands for row 0, of which nothing may reach the node
        gram.masked_fill_(~(held.unsqueeze(1) & held.unsqueeze(2)), 0)
        total = torch.where(held, weights * reach[members], 0).sum(1)
        found.append(Neighbourhoods(nodes, members, weights, gram, total))
    return tuple(found)
