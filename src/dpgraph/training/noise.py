"""Gaussian noise on the sum of clipped gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dpgraph.errors import invalid


def add_gaussian_noise(sums: Sequence[Tensor], std: float | Sequence[float], generator: torch.Generator) -> None:
    """Adds independent N(0, std^2) to every coordinate of the joint vector, in place, once.

    `std` is a standard deviation on the sum (not a multiplier, not divided by the batch size): one number, or one for
    each tensor. The generator lives on the tensors' device. Sampled in float32 (or the tensors' type) without
    protection against floating-point attacks: research code, not a release of private data.
    """
    stds = [float(std)] * len(sums) if isinstance(std, int | float) else list(std)
    for value in stds:
        if not 0 <= value < float("inf"):
            raise invalid("noise std", value, "a finite number >= 0")
    for tensor, value in zip(sums, stds, strict=True):
        noise = torch.empty_like(tensor).normal_(generator=generator)
        tensor.add_(noise, alpha=value)
