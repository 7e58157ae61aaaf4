"""Multi-layer perceptron: encoder and decoder of every network, and the whole of the DP-MLP baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Activation, Dense, apply_layer, dense_layers
from dpgraph.engine.models.dropout import Dropout


class Mlp(nn.Module):
    """Dense layers with activations between them, and after the last one if `activate_output`; dropout after each."""

    def __init__(
        self,
        sizes: list[int],
        activation: Activation,
        activate_output: bool,
        generator: torch.Generator,
        dtype: torch.dtype,
        dropout: Dropout | None = None,
    ) -> None:
        super().__init__()
        self.layers = dense_layers(sizes, generator, dtype)
        self.activation = activation
        self.dropout = dropout or Dropout(0.0)
        self.activate_output = activate_output

    def forward(self, rows: Tensor, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        """(n, sizes[0]) rows of a level -> (n, sizes[-1])."""
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            rows = dense(layer, rows, level)
            if i < last or self.activate_output:
                rows = self.dropout(self.activation(rows))
        return rows
