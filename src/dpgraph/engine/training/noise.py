"""Gaussian noise on the sum of clipped gradients, and on other releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.errors import invalid


@dataclass
class GaussianNoise:
    """The noise of one seed's steps on its sum of clipped gradients: not a multiplier, not yet divided.

    `std` is one number, or one for each parameter, in gradient units; `draws` counts the steps that were noised in this
    process, `numbers` the normal numbers that were drawn for them.
    """

    std: float | tuple[float, ...]
    generator: torch.Generator
    draws: int = 0
    numbers: int = 0

    def __post_init__(self) -> None:
        for value in self.std if isinstance(self.std, tuple) else (self.std,):
            if not 0 <= value < float("inf"):
                raise invalid("noise std", value, "a finite number >= 0")

    def add(self, sums: Sequence[Tensor]) -> None:
        """Add noise once to the joint vector, in place."""
        self.draws += 1
        self.numbers += add_gaussian_noise(sums, self.std, self.generator)

    def fill(self, buffers: Sequence[Tensor]) -> float:
        """Fill one step's buffers with standard normal numbers; return their factor, the std.

        Works with one std. Engines with all parameters in one vector add the noise themselves, from memory that they
        keep.
        """
        self.draws += 1
        if isinstance(self.std, tuple):
            raise TypeError("one std for all parameters was expected")
        for buffer in buffers:
            buffer.normal_(generator=self.generator)
            self.numbers += buffer.numel()
        return float(self.std)


@dataclass
class ReleaseNoise:
    """The noise of releases other than the steps, those of one role one after the other."""

    generator: np.random.Generator
    stds: list[float] = field(default_factory=list)  # of the noise of each release, in their order

    def on(self, values: np.ndarray, std: float, unit: float) -> np.ndarray:
        """Return `values` plus N(0, std^2) noise each.

        The values are multiples of `unit`, a power of two; a noise source for releases rounds its noise to that grid,
        and this one, for research, does not.
        """
        noise = self.generator.standard_normal(values.shape)
        noise *= std
        noise += values
        self.stds.append(std)
        return np.asarray(noise)


def add_gaussian_noise(sums: Sequence[Tensor], std: float | Sequence[float], generator: torch.Generator) -> int:
    """Add independent N(0, std^2) to every coordinate of the joint vector, once; return how many numbers were drawn.

    `std` is a standard deviation on the sum (not a multiplier, not divided by the batch size): one number, or one for
    each tensor. The generator lives on the tensors' device. Sampled in float32 (or the tensors' type) without
    protection against floating-point attacks: research code, not a release of private data.
    """
    stds = [float(std)] * len(sums) if isinstance(std, int | float) else list(std)
    for value in stds:
        if not 0 <= value < float("inf"):
            raise invalid("noise std", value, "a finite number >= 0")
    numbers = 0
    for tensor, value in zip(sums, stds, strict=True):
        noise = torch.empty_like(tensor).normal_(generator=generator)
        numbers += noise.numel()
        tensor.add_(noise, alpha=value)
    return numbers
