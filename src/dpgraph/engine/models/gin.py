"""Graph isomorphism network (Xu et al., 2019, eq. 4.1; Daigavane et al., section 6.3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Activation, Dense, SelfWeight, apply_layer, linear_layer
from dpgraph.engine.models.segments import Segments


class GinLayer(nn.Module):
    """h'_u = act(W ((1 + eps) h_u + sum of h over E_u) + b), eps learnt and 0 at first.

    No skip connection, unlike `GcnLayer`: it would hand the sum over a hub's list, which no bound holds, to the decoder
    past the activation, and the GIN of the papers has none.
    """

    def __init__(self, width: int, activation: Activation, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.self_weight = SelfWeight(dtype)
        self.linear = linear_layer(width, width, generator, dtype)
        self.activation = activation

    def forward(self, rows: Tensor, segments: Segments, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        """(num_rows, width) states of the deeper level -> (n, width)."""
        total = segments.sum(rows) + dense(self.self_weight, segments.own(rows), level)
        return self.activation(dense(self.linear, total, level))
