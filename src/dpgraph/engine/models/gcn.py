"""Graph convolution with inverse-degree normalisation (Daigavane et al., App. E)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Activation, Dense, apply_layer, linear_layer
from dpgraph.engine.models.segments import Segments


class GcnLayer(nn.Module):
    """h'_u = m_u + act(W m_u + b), with m_u the mean of h over {u} and E_u: the operator (d + I)^-1 (A + I).

    The skip connection is the authors' released code; the paper's text does not mention it.
    """

    def __init__(self, width: int, activation: Activation, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = linear_layer(width, width, generator, dtype)
        self.activation = activation

    def forward(self, rows: Tensor, segments: Segments, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        """(num_rows, width) states of the deeper level -> (n, width)."""
        mean = segments.mean(rows)
        return mean + self.activation(dense(self.linear, mean, level))
