"""The networks on images: softmax regression and a small convolutional network."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from dpgraph.core.errors import invalid
from dpgraph.engine.models.dense import undrawn


class SmallCnn(nn.Module):
    """A convolutional network from pixels (n, H W C), channels last, to logits (n, classes); sides are at least 4."""

    def __init__(
        self, shape: tuple[int, int, int], classes: int, channels: int, width: int, generator: torch.Generator
    ) -> None:
        """Draw initial parameters from `generator` on the CPU: uniform within 1 / sqrt(inputs of a unit)."""
        super().__init__()
        height, breadth, depth = shape
        self.shape = shape
        # PyTorch's own initial values come from the global generator
        self.first = undrawn(nn.Conv2d, depth, channels, 3, padding=1)
        self.second = undrawn(nn.Conv2d, channels, 2 * channels, 3, padding=1)
        self.hidden = undrawn(nn.Linear, 2 * channels * (height // 4) * (breadth // 4), width)
        self.last = undrawn(nn.Linear, width, classes)
        with torch.no_grad():
            for layer in (self.first, self.second, self.hidden, self.last):
                bound = 1 / math.sqrt(layer.weight[0].numel())
                for parameter in layer.parameters():
                    parameter.uniform_(-bound, bound, generator=generator)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the logits (n, classes)."""
        height, breadth, depth = self.shape
        images = pixels.reshape(-1, height, breadth, depth).permute(0, 3, 1, 2)
        for layer in (self.first, self.second):
            images = nn.functional.max_pool2d(torch.relu(layer(images)), 2)
        return self.last(torch.relu(self.hidden(images.flatten(1))))  # type: ignore[no-any-return]


class Softmax(nn.Module):
    """One linear layer from pixels (n, F) to logits (n, classes) (Fredrikson et al. 2015; Zhang, section 4.5.2)."""

    def __init__(self, pixels: int, classes: int, generator: torch.Generator) -> None:
        """Draw initial parameters as `SmallCnn` does."""
        super().__init__()
        # PyTorch's own initial values come from the global generator
        self.last = undrawn(nn.Linear, pixels, classes)
        with torch.no_grad():
            for parameter in self.last.parameters():
                parameter.uniform_(-1 / math.sqrt(pixels), 1 / math.sqrt(pixels), generator=generator)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.last(pixels)  # type: ignore[no-any-return]


def image_network(model: Any, shape: tuple[int, int, int], classes: int, generator: torch.Generator) -> nn.Module:
    """Return the network of the settings `ImageModel` (`families/units/spec`) for images (height, width, channels).

    Raises UserError for images that are too small for a convolutional network.
    """
    if model.kind == "softmax":
        return Softmax(math.prod(shape), classes, generator)
    if min(shape[:2]) < 4:
        raise invalid("shape", shape, "images of at least 4 x 4 pixels, which two maxima over 2 x 2 leave something of")
    return SmallCnn(shape, classes, model.channels, model.width, generator)
