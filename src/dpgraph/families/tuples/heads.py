"""Heads on fixed vectors of entities: scores, and each tuple's gradient in closed form.

For a tuple with head h, entities x_j and slopes c_j = dL / ds_j let y = sum_j c_j x_j. Then dL / dw = h * y for the
diagonal head s_j = sum_d w_d h_d x_jd, dL / dM = h y' for the bilinear one, s_j = h' M x_j, (h y' + y h') / 2 for the
symmetric one, s_j = h' (M + M') x_j / 2, and dL / dW = (W y) h' + (W h) y' for the linear one, s_j = (W h)' (W x_j).
The norms of the last three need inner products only.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from dpgraph.engine.training.precision import enlarged_norms
from dpgraph.families.tuples.steps import ClippedTuples, TupleLoss, factors

HeadName = Literal["diagonal", "bilinear", "symmetric", "linear"]


class Head(nn.Module):
    """The one parameter; at first scores are the inner products of the vectors, or of a random projection of them."""

    def __init__(self, name: HeadName, features: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.name = name
        if name == "diagonal":
            first = torch.ones(features)
        elif name in ("bilinear", "symmetric"):
            first = torch.eye(features)
        else:
            first = torch.empty(width, features).normal_(std=width**-0.5, generator=generator)
        self.weight = nn.Parameter(first)

    def seen(self, heads: Tensor) -> Tensor:
        """(b, d) what the others' inner products are with; (b, width) of the linear head."""
        if self.name == "diagonal":
            return heads * self.weight
        if self.name == "symmetric":
            return (heads @ self.weight + heads @ self.weight.T) / 2
        return heads @ (self.weight if self.name == "bilinear" else self.weight.T)


class HeadModel:
    """A head on vectors (N, d), which stay as they are: the `TupleModel` of a frozen encoder."""

    def __init__(self, head: Head, vectors: Tensor, loss: TupleLoss) -> None:
        self.network, self.vectors, self.loss = head, vectors, loss

    @torch.no_grad()
    def clipped(self, batch: Tensor, limits: Tensor) -> ClippedTuples:
        weight, kind = self.network.weight, self.network.name
        heads, others = self.vectors[batch[:, 0]], self.vectors[batch[:, 1:]]
        seen = self.network.seen(heads)
        right = others @ weight.T if kind == "linear" else others
        slopes = self.loss.slopes(torch.einsum("bd,bkd->bk", seen, right))
        mixed = torch.einsum("bk,bkd->bd", slopes, others)  # y
        if kind == "diagonal":
            gradients = heads * mixed
            squares = gradients.square().sum(1)
            norms = enlarged_norms(squares, squares)
            return ClippedTuples([factors(norms, limits) @ gradients], norms)
        if kind in ("bilinear", "symmetric"):
            longest = heads.square().sum(1) * mixed.square().sum(1)
            inner = (heads * mixed).sum(1).square() if kind == "symmetric" else longest
            norms = enlarged_norms((longest + inner) / 2, longest)
            total = (heads * factors(norms, limits)[:, None]).T @ mixed
            return ClippedTuples([total if kind == "bilinear" else (total + total.T) / 2], norms)
        moved = mixed @ weight.T  # W y
        squares = (moved * moved).sum(1) * (heads * heads).sum(1) + (seen * seen).sum(1) * (mixed * mixed).sum(1)
        cross = 2 * (moved * seen).sum(1) * (heads * mixed).sum(1)
        lengths = moved.norm(dim=1) * heads.norm(dim=1) + seen.norm(dim=1) * mixed.norm(dim=1)
        norms = enlarged_norms((squares + cross).clamp_min(0), lengths.square())
        scale = factors(norms, limits)[:, None]
        return ClippedTuples([(moved * scale).T @ heads + (seen * scale).T @ mixed], norms)

    @torch.no_grad()
    def states(self) -> Tensor:
        moved = self.network.seen(self.vectors)
        return moved if self.network.name == "linear" else torch.stack([moved, self.vectors], dim=1)
