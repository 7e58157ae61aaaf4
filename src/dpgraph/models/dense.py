"""Dense layers: activation, initialisation, and how a layer is applied to packed rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": torch.relu, "tanh": torch.tanh}

# Applies a layer to rows of a level of an ego batch; the private engine passes one that also records both.
Dense = Callable[[nn.Linear, Tensor, int], Tensor]


def apply_layer(layer: nn.Linear, rows: Tensor, level: int) -> Tensor:
    """(n, d_in) rows of any level -> (n, d_out) pre-activations."""
    return layer(rows)


def dense_layers(sizes: list[int], generator: torch.Generator, dtype: torch.dtype) -> nn.ModuleList:
    """Layers sizes[0] -> sizes[1] -> ..."""
    return nn.ModuleList(lecun_normal(d_in, d_out, generator, dtype) for d_in, d_out in pairwise(sizes))


def lecun_normal(d_in: int, d_out: int, generator: torch.Generator, dtype: torch.dtype) -> nn.Linear:
    """A layer with weights of variance 1 / d_in, normal truncated at two standard deviations (as in Flax), bias 0."""
    layer = nn.utils.skip_init(nn.Linear, d_in, d_out, dtype=dtype)
    # 0.8796 is the std of a standard normal truncated at +-2, so that the result has variance 1 / d_in.
    std = 1 / math.sqrt(d_in) / 0.87962566103423978
    with torch.no_grad():
        nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
        nn.init.zeros_(layer.bias)
    return layer
