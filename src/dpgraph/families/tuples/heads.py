"""Heads on fixed vectors of entities: scores, and each tuple's gradient in closed form.

A tuple has a head entity h and entities x_j with slopes c_j = dL / ds_j; let y = sum_j c_j x_j. The diagonal head
s_j = sum_d w_d h_d x_jd has the gradient dL / dw = h * y, the symmetric one s_j = h' (M + M') x_j / 2 has
dL / dM = (h y' + y h') / 2, whose norm needs inner products only.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from dpgraph.engine.training.precision import enlarged_norms, rank_one
from dpgraph.families.tuples.steps import ClippedTuples, TupleLoss, clip_factors, without_lost

HeadName = Literal["diagonal", "symmetric"]


class Head(nn.Module):
    """The one trained parameter of a score: weights (d,) or a matrix (d, d).

    Before the first step scores are the inner products of the vectors.
    """

    def __init__(self, name: HeadName, features: int) -> None:
        """Start a head on vectors of `features` numbers at ones, or at the identity."""
        super().__init__()
        self.name = name
        self.weight = nn.Parameter(torch.ones(features) if name == "diagonal" else torch.eye(features))

    def mapped(self, heads: Tensor) -> Tensor:
        """Map head vectors (b, d) to the vectors (b, d) whose inner products with the others are scores."""
        if self.name == "diagonal":
            return heads * self.weight
        return (heads @ self.weight + heads @ self.weight.T) / 2


class HeadModel:
    """The `TupleModel` of a frozen encoder: a head on vectors (N, d), which stay as they are."""

    def __init__(self, head: Head, vectors: Tensor, loss: TupleLoss) -> None:
        """Score tuples of the entities `vectors` (N, d) with a head."""
        self.network, self.vectors, self.loss = head, vectors, loss

    @torch.no_grad()
    def clipped(self, batch: Tensor, limits: Tensor) -> ClippedTuples:
        """Return the clipped sum of the tuples `batch` (b, 2 + k), each scaled to at most its limit (b,)."""
        heads, others = self.vectors[batch[:, 0]], self.vectors[batch[:, 1:]]
        slopes = self.loss.slopes(torch.einsum("bd,bkd->bk", self.network.mapped(heads), others))
        mixed = torch.einsum("bk,bkd->bd", slopes, others)  # y
        if self.network.name == "diagonal":
            gradients = heads * mixed
            squares = gradients.square().sum(1)
            norms = enlarged_norms(squares, squares)
            return ClippedTuples([clip_factors(norms, limits) @ without_lost(gradients, norms)], norms)
        longest, scale = rank_one(heads.square().sum(1, keepdim=True), mixed.square().sum(1, keepdim=True))
        inner = (heads * mixed).sum(1).square()
        norms = enlarged_norms((longest + inner) / 2, scale)
        scaled = without_lost(heads, norms) * clip_factors(norms, limits)[:, None]
        total = scaled.T @ without_lost(mixed, norms)
        return ClippedTuples([(total + total.T) / 2], norms)

    @torch.no_grad()
    def states(self) -> Tensor:
        """Return the (N, 2, d) states of all entities as a head and as a tail."""
        return torch.stack([self.network.mapped(self.vectors), self.vectors], dim=1)
