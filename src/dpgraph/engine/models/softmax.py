"""Softmax regression on pixels, and the networks on images by name."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from dpgraph.engine.models.convolution import SmallCnn
from dpgraph.engine.models.dense import undrawn


class Softmax(nn.Module):
    """(n, F) pixels -> (n, classes) logits, one linear layer (Fredrikson et al. 2015; Zhang, section 4.5.2)."""

    def __init__(self, pixels: int, classes: int, generator: torch.Generator) -> None:
        """Initial parameters as `SmallCnn`'s."""
        super().__init__()
        # PyTorch's own initial values come from the global generator
        self.last = undrawn(nn.Linear, pixels, classes)
        with torch.no_grad():
            for parameter in self.last.parameters():
                parameter.uniform_(-1 / math.sqrt(pixels), 1 / math.sqrt(pixels), generator=generator)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.last(pixels)  # type: ignore[no-any-return]


def image_network(model: Any, shape: tuple[int, int, int], classes: int, generator: torch.Generator) -> nn.Module:
    """Of the settings `ImageModel` (`families/units/spec`), for images of that height, width and channels."""
    if model.kind == "softmax":
        return Softmax(math.prod(shape), classes, generator)
    return SmallCnn(shape, classes, model.channels, model.width, generator)
