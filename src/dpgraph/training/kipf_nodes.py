"""Clipping of each node's gradient in Kipf's GCN (Igamberdiev and Habernal, Eq. 5, with one x_i for each node).

The guarantees are those of `training.clipping`, for messages over whatever a block holds: a node's contribution to the
sum is no longer than the clip norm, as norms are enlarged by more than their rounding, and a node whose gradient is not
finite contributes exactly 0. Nothing bounds on how many nodes' gradients one record acts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpgraph.models.kipf import NodeErrors
from dpgraph.training.precision import enlarged_norms


@dataclass(frozen=True)
class NodeClipping:
    """Factors min(1, C / n_v) with n_v the norm of the gradient of node v's loss, all parameters together."""

    clip_norm: float

    def __call__(self, found: NodeErrors) -> Tensor:
        """(n,) in (0, 1]; 0 where n_v is not finite."""
        norms = node_norms(found)
        return torch.clamp_max(self.clip_norm / norms, 1).masked_fill_(~torch.isfinite(norms), 0)


def node_norms(found: NodeErrors) -> Tensor:
    """(n,) norms of the nodes' gradients, enlarged by what rounding may have taken from them.

    What rounding is relative to is s = sum |g_i| |a_i| of docs/privacy.md, Lemma R: here at most the largest slope
    times |W2| |e_v| times the lengths of all records that are added up.
    """
    last = found.errors.square().sum(0) * (found.mixed.square().sum(1) + 1)
    squared, reach = torch.zeros_like(last), torch.zeros_like(last)
    backs, bounds = found.errors.T @ found.w2.T, found.errors.abs().T @ found.w2.abs().T
    for piece in found.block.neighbourhoods:
        squared[piece.nodes] = piece.squares(backs, found.slopes)
        reach[piece.nodes] = piece.reach.to(last.dtype)
    scale = bounds.square().sum(1).mul_(reach.square_()).mul_(found.slopes.max().square())
    return enlarged_norms(squared.add_(last), scale.add_(last))
