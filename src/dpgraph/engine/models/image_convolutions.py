"""The stacks of convolutions of PATE's teachers and of a student's discriminators, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Depth = Literal[2, 7]


@dataclass(frozen=True)
class Convolution:
    """One convolution on square windows."""

    kernel: int
    stride: int
    padding: int
    channels: int  # that it makes

    def side(self, read: int) -> int:
        """Return the pixels of an output side from the pixels of an input side.

        >>> Convolution(4, 2, 1, 8).side(28), Convolution(3, 2, 1, 8).side(7), Convolution(5, 1, 2, 8).side(7)
        (14, 4, 7)
        """
        return (read + 2 * self.padding - self.kernel) // self.stride + 1


def convolutions(depth: Depth, channels: int) -> tuple[Convolution, ...]:
    """Return the layers of a network with 2 or 7 convolutions.

    Two: 4 x 4 with stride 2, the second with twice as many channels. Seven (Papernot et al. 2017, in their code; Zhang,
    section 3.4.1, names their number): three of 3 x 3, three of 3 x 3 with twice as many channels, the last of each
    three with stride 2, and one of 5 x 5; `channels` is 96 there.
    """
    if depth == 2:
        return (Convolution(4, 2, 1, channels), Convolution(4, 2, 1, 2 * channels))
    same, halved = (3, 1, 1), (3, 2, 1)
    kinds = ((same, 1), (same, 1), (halved, 1), (same, 2), (same, 2), (halved, 2), ((5, 1, 2), 2))
    return tuple(Convolution(*kind, times * channels) for kind, times in kinds)


def hidden_layers(depth: Depth) -> int:
    """Return the number of linear layers between the convolutions and the class scores."""
    return 1 if depth == 2 else 2


def made_sides(height: int, width: int, layers: tuple[Convolution, ...]) -> tuple[int, int]:
    """Return height and width after all layers.

    >>> made_sides(28, 28, convolutions(7, 96)), made_sides(28, 28, convolutions(2, 8))
    ((7, 7), (7, 7))
    """
    for layer in layers:
        height, width = layer.side(height), layer.side(width)
    return height, width


def multiplications(shape: tuple[int, int, int], depth: Depth, channels: int, width: int) -> float:
    """Return the multiplications for one image, without the class scores.

    >>> multiplications((28, 28, 1), 7, 96, 192) / 1e6
    242.763264
    """
    (height, breadth, read), total = shape, 0.0
    for layer in convolutions(depth, channels):
        height, breadth = layer.side(height), layer.side(breadth)
        total += height * breadth * layer.kernel**2 * read * layer.channels
        read = layer.channels
    return total + height * breadth * read * width + (hidden_layers(depth) - 1) * width**2
