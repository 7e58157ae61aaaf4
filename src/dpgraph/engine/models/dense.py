"""Layers with parameters, perceptrons of them and dropout, and how a layer is applied to packed rows.

Every parameter of a network belongs to one of these layers, and every layer is applied through a `Dense`, so that the
private engine sees all rows on which it acts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]
Layer = TypeVar("Layer", bound=nn.Module)
ACTIVATIONS: dict[str, Activation] = {"relu": torch.relu, "tanh": torch.tanh}

# Applies a layer to rows of a level of an ego batch; the private engine passes one that also records both.
Dense = Callable[[nn.Module, Tensor, int], Tensor]


def apply_layer(layer: nn.Module, rows: Tensor, level: int) -> Tensor:
    """Apply a layer to rows (n, ...) of any level."""
    return layer(rows)  # type: ignore[no-any-return]


class SelfWeight(nn.Module):
    """The map h -> eps h with one learnt number eps, 0 at first."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros((), dtype=dtype))

    def forward(self, rows: Tensor) -> Tensor:
        return self.epsilon * rows


class HeadLinear(nn.Linear):
    """The linear maps of several attention heads, stacked: head k has rows k d to (k + 1) d of the weight.

    (n, d_in) -> (n, heads, d), all heads on one input; (n, heads, d_in) -> (n, heads, d), each head on its own.
    """

    BIAS = True

    def __init__(
        self,
        heads: int,
        d_in: int,
        head_width: int,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(d_in, heads * head_width, bias=self.BIAS, device=device, dtype=dtype)
        self.heads = heads

    @property
    def by_head(self) -> Tensor:
        """The weight as (heads, d, d_in)."""
        return self.weight.unflatten(0, (self.heads, -1))

    def forward(self, rows: Tensor) -> Tensor:
        if rows.dim() == 2:
            return super().forward(rows).unflatten(1, (self.heads, -1))
        own = torch.bmm(rows.transpose(0, 1), self.by_head.transpose(1, 2)).transpose(0, 1)
        return own + self.bias.view(self.heads, -1)


class KeyLinear(HeadLinear):
    """Keys of several heads, without bias: (n, d_in) -> (n, heads, d).

    Applied to queries (n, heads, d) it is transposed, (n, heads, d_in): q . K h = (K^T q) . h.
    """

    BIAS = False

    def forward(self, rows: Tensor) -> Tensor:
        if rows.dim() == 2:
            return super().forward(rows)
        return torch.bmm(rows.transpose(0, 1), self.by_head).transpose(0, 1)


def dense_layers(sizes: list[int], generator: torch.Generator, dtype: torch.dtype) -> nn.ModuleList:
    """Return linear layers sizes[0] -> sizes[1] -> ..."""
    return nn.ModuleList(linear_layer(d_in, d_out, generator, dtype) for d_in, d_out in pairwise(sizes))


def undrawn(kind: type[Layer], *sizes: Any, **options: Any) -> Layer:
    """Return a layer whose parameters have no values yet; no generator of torch's is read.

    `torch.nn.utils.skip_init` does the same and imports sympy, which takes longer than a short training.
    """
    layer = kind(*sizes, device="meta", **options)
    for name, shaped in list(layer.named_parameters(recurse=False)):
        setattr(layer, name, nn.Parameter(torch.empty(shaped.shape, dtype=shaped.dtype)))
    return layer


def linear_layer(d_in: int, d_out: int, generator: torch.Generator, dtype: torch.dtype) -> nn.Linear:
    """Return a linear layer with initial weights of `lecun_normal`."""
    return lecun_normal(undrawn(nn.Linear, d_in, d_out, dtype=dtype), generator)


def head_layer(
    kind: type[HeadLinear], heads: int, d_in: int, head_width: int, generator: torch.Generator, dtype: torch.dtype
) -> HeadLinear:
    """Return a layer of several heads with initial weights of `lecun_normal`."""
    layer: HeadLinear = undrawn(kind, heads, d_in, head_width, dtype=dtype)
    lecun_normal(layer, generator)
    return layer


def lecun_normal(layer: nn.Linear, generator: torch.Generator) -> nn.Linear:
    """Draw weights of variance 1 / d_in, normal truncated at two standard deviations (as in Flax); the bias is 0."""
    # 0.8796 is the std of a standard normal truncated at +-2, so that the result has variance 1 / d_in.
    std = 1 / math.sqrt(layer.in_features) / 0.87962566103423978
    with torch.no_grad():
        nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layer


class Dropout(nn.Module):
    """Dropout with masks from a named generator (Srivastava et al., 2014).

    In training each entry becomes 0 with probability `rate`, and the rest is divided by 1 - rate. Masks do not depend
    on the data, and those of different rows are independent. So a root's gradient depends on its own rows and masks
    alone, and clipping bounds its contribution as without dropout. `generator` is on the rows' device; without
    one, training mode raises TypeError.
    """

    def __init__(self, rate: float, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.rate, self.generator = rate, generator

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return rows
        if self.generator is None:
            raise TypeError("dropout in training needs a generator")
        # several times faster than bernoulli_ on a CPU
        kept = torch.empty_like(rows).uniform_(generator=self.generator) >= self.rate
        return rows * kept.to(rows.dtype).div_(1 - self.rate)


class Mlp(nn.Module):
    """Encoder or decoder of a network: dense layers with activations between them, each followed by dropout."""

    def __init__(
        self,
        sizes: list[int],
        activation: Activation,
        activate_output: bool,
        generator: torch.Generator,
        dtype: torch.dtype,
        dropout: Dropout | None = None,
    ) -> None:
        """Make layers of these sizes; with `activate_output` the last one is activated, too."""
        super().__init__()
        self.layers = dense_layers(sizes, generator, dtype)
        self.activation = activation
        self.dropout = dropout or Dropout(0.0)
        self.activate_output = activate_output

    def forward(self, rows: Tensor, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        """Return (n, sizes[-1]) from rows (n, sizes[0]) of a level."""
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            rows = dense(layer, rows, level)
            if i < last or self.activate_output:
                rows = self.dropout(self.activation(rows))
        return rows
