"""Many small convolutional networks of one shape side by side: the teachers of PATE (Papernot et al. 2017)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dpgraph.engine.models.image_convolutions import Depth, convolutions, hidden_layers, made_sides


class StackedTeachers(nn.Module):
    """(t, n, H W C) pixels, channels last -> (t, n, classes) logits: teacher i sees the i-th stack of images alone.

    Convolutions (two, or the seven of PATE's deep network), hidden linear layers and class scores, with ReLU between
    them. All sums are batched matrix products over teachers, so that none reads what another one does.
    """

    def __init__(
        self, shape: tuple[int, int, int], classes: int, teachers: int, channels: int, width: int,
        generator: torch.Generator, depth: Depth = 2,
    ) -> None:  # fmt: skip
        """Initial parameters are drawn from `generator` on the CPU: He's uniform law; height and width are >= 4."""
        super().__init__()
        height, breadth, read = shape
        self.shape, self.teachers, self.convolutions = shape, teachers, convolutions(depth, channels)
        sizes = []
        for layer in self.convolutions:
            sizes.append((read * layer.kernel**2, layer.channels))
            read = layer.channels
        height, breadth = made_sides(height, breadth, self.convolutions)
        read *= height * breadth
        for _ in range(hidden_layers(depth)):
            sizes.append((read, width))
            read = width
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, made in (*sizes, (read, classes)):
            bound = math.sqrt(6 / inputs)
            weight = torch.empty(teachers, inputs, made).uniform_(-bound, bound, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(teachers, 1, made)))

    def forward(self, pixels: Tensor) -> Tensor:
        """`pixels` of fewer teachers than there are: those of the first ones."""
        teachers, count = pixels.shape[:2]
        height, breadth, depth = self.shape
        states = pixels.reshape(teachers * count, height, breadth, depth).permute(0, 3, 1, 2)
        for number, layer in enumerate(self.convolutions):
            height, breadth = layer.side(height), layer.side(breadth)
            read = states[:, :, : layer.stride * height, : layer.stride * breadth]  # a last odd row is not read
            patches = nn.functional.unfold(read, layer.kernel, padding=layer.padding, stride=layer.stride)
            rows = patches.transpose(1, 2).reshape(teachers, count * height * breadth, -1)
            states = torch.relu(self._linear(number, rows))
            states = states.reshape(teachers * count, height, breadth, -1).permute(0, 3, 1, 2)
        states = states.reshape(teachers, count, -1)
        last = len(self.weights) - 1
        for number in range(len(self.convolutions), last):
            states = torch.relu(self._linear(number, states))
        return self._linear(last, states)

    def _linear(self, layer: int, rows: Tensor) -> Tensor:
        teachers = len(rows)
        return torch.baddbmm(self.biases[layer][:teachers], rows, self.weights[layer][:teachers])
