"""Many small convolutional networks of one shape side by side: the teachers of PATE (Papernot et al. 2017)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

KERNEL, STRIDE, PADDING = 4, 2, 1  # a convolution halves both sides


class StackedTeachers(nn.Module):
    """(t, n, H W C) pixels, channels last -> (t, n, classes) logits: teacher i sees the i-th stack of images alone.

    Two convolutions of 4 x 4 with stride 2, the second with twice as many channels, and two linear layers, all with
    ReLU between them. All sums are batched matrix products over teachers, so that none reads what another one does.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        teachers: int,
        channels: int,
        width: int,
        generator: torch.Generator,
    ) -> None:
        """Initial parameters are drawn from `generator` on the CPU: He's uniform law; height and width are >= 4."""
        super().__init__()
        height, breadth, depth = shape
        self.shape, self.teachers = shape, teachers
        sizes = (
            (depth * KERNEL**2, channels),
            (channels * KERNEL**2, 2 * channels),
            (2 * channels * (height // 4) * (breadth // 4), width),
            (width, classes),
        )
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for read, made in sizes:
            bound = math.sqrt(6 / read)
            weight = torch.empty(teachers, read, made).uniform_(-bound, bound, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(teachers, 1, made)))

    def forward(self, pixels: Tensor) -> Tensor:
        """`pixels` of fewer teachers than there are: those of the first ones."""
        teachers, count = pixels.shape[:2]
        height, breadth, depth = self.shape
        states = pixels.reshape(teachers * count, height, breadth, depth).permute(0, 3, 1, 2)
        for layer in (0, 1):
            height, breadth = height // 2, breadth // 2
            patches = nn.functional.unfold(
                states[:, :, : 2 * height, : 2 * breadth], KERNEL, padding=PADDING, stride=STRIDE
            )
            rows = patches.transpose(1, 2).reshape(teachers, count * height * breadth, -1)
            states = torch.relu(self._linear(layer, rows))
            states = states.reshape(teachers * count, height, breadth, -1).permute(0, 3, 1, 2)
        flat = states.reshape(teachers, count, -1)
        return self._linear(3, torch.relu(self._linear(2, flat)))

    def _linear(self, layer: int, rows: Tensor) -> Tensor:
        teachers = len(rows)
        return torch.baddbmm(self.biases[layer][:teachers], rows, self.weights[layer][:teachers])
