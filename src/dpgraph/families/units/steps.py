"""Steps over units of images: the gradient of each drawn unit's mean loss, clipped as one vector (Zhang, Algorithm 5).

A layer's gradient for unit u is a product of the unit's rows: sum over its images (and positions of a convolution) of
weight x derivative by output x input. One forward and one backward pass of a chunk of images gives the rows of all its
units, batched products the gradients, which are formed whole. The norm is of the very vector that is added, so rounding
of either pass does not loosen the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.engine.sampling.batches import Draws
from dpgraph.engine.training.ghost import LayerRows
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import apply_gradient
from dpgraph.engine.training.precision import OPERANDS, operand_eps
from dpgraph.families.units.sampling import Units

MOST_IMAGES = 1024  # in one pass
MOST_NUMBERS = 2**24  # of gradients that are formed at once
SLACK = 1 - 1e-6  # of a limit, for the rounding of its product with a gradient


@dataclass
class UnitGradients:
    """Gradients of the mean losses of units, for networks whose parameters are those of linear layers and convolutions.

    `network` takes (n, F) pixels and gives (n, classes) logits.
    """

    network: nn.Module

    def __post_init__(self) -> None:
        kinds = (nn.Linear, nn.Conv2d)
        self.layers = nn.ModuleList([one for one in self.network.modules() if isinstance(one, kinds)])
        held = [parameter for layer in self.layers for parameter in layer.parameters()]
        if [id(one) for one in held] != [id(one) for one in self.network.parameters()]:
            raise TypeError(
                "expected a network of linear layers and convolutions alone, in the order of its parameters"
            )
        self.size = sum(one.numel() for one in held)

    def weighted(self, pixels: Tensor, labels: Tensor, images: Tensor, weights: Tensor) -> Tensor:
        """Return the gradients (u, P) of the units' weighted cross-entropies; an image without label has gradient 0.

        Args:
            pixels: (N, F) images.
            labels: (N,) classes; -1: none.
            images: (u, m) ids of each unit's images.
            weights: (u, m) weights of their losses.
        """
        total = torch.zeros(len(images), self.size, dtype=pixels.dtype, device=pixels.device)
        columns = max(1, MOST_IMAGES // max(len(images), 1))
        for chosen, shares in zip(images.split(columns, dim=1), weights.split(columns, dim=1), strict=True):
            self._add(total, pixels[chosen.flatten()], labels[chosen.flatten()], shares)
        return total

    def _add(self, total: Tensor, pixels: Tensor, labels: Tensor, weights: Tensor) -> None:
        rows = LayerRows()
        with rows.recorded(self.layers), torch.enable_grad():
            losses = nn.functional.cross_entropy(self.network(pixels), labels, reduction="none", ignore_index=-1)
            # a unit's mean is its own: no number of another unit enters it
            slopes = torch.autograd.grad((losses * weights.flatten()).sum(), list(rows.outputs.values()))
        place, units = 0, len(weights)
        for layer, slope, inputs in zip(self.layers, slopes, rows.inputs.values(), strict=True):
            if isinstance(layer, nn.Conv2d):
                inputs = nn.functional.unfold(
                    inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride  # type: ignore[arg-type]
                ).transpose(1, 2)  # fmt: skip
                slope = slope.flatten(2).transpose(1, 2)
            inputs, slope = (one.reshape(units, -1, one.shape[-1]) for one in (inputs, slope))
            parts = [torch.bmm(slope.transpose(1, 2), inputs)]
            if layer.bias is not None:
                parts.append(slope.sum(dim=1))
            for part in parts:
                flat = part.reshape(units, -1)
                total[:, place : place + flat.shape[1]] += flat
                place += flat.shape[1]


def clipped_sum(gradients: Tensor, clip_norm: float) -> Tensor:
    """Return the sum (P,) of rows (u, P), each scaled to norm at most `clip_norm`; a row that is not finite is 0.

    The sum is a product of matrices. No cell asks for rounded operands; where PyTorch rounds them nonetheless, norms
    are enlarged for it (Theorem 2 of docs/privacy/shared.md).
    """
    norms = gradients.double().norm(dim=1) * (1 + OPERANDS * operand_eps(gradients))
    finite = torch.isfinite(norms)
    factors = torch.where(norms <= clip_norm, torch.ones_like(norms), SLACK * clip_norm / norms)
    whole = torch.where(finite[:, None], gradients, torch.zeros_like(gradients))
    return torch.where(finite, factors, torch.zeros_like(factors)).to(gradients.dtype) @ whole


@dataclass
class UnitStep:
    """Noisy sum of clipped gradients of a Poisson sample of units. `preparation` builds it from a mechanism.

    `most` images of a drawn unit are read, None: all. Returns how many images were read.
    """

    network: nn.Module
    optimizer: torch.optim.Optimizer
    features: Tensor  # (N, F)
    labels: Tensor  # (N,)
    units: Units
    draws: Draws
    images: np.random.Generator  # which images of a unit
    most: int | None
    clip_norm: float
    noise: GaussianNoise
    divisor: float

    def __post_init__(self) -> None:
        self._gradients = UnitGradients(self.network)

    def __call__(self) -> int:
        drawn = self.draws.next()
        drawn = drawn[self.units.sizes[drawn] > 0]  # an empty unit adds 0
        images, weights = self.units.chosen(drawn, self.most, self.images)
        total = torch.zeros(self._gradients.size, dtype=self.features.dtype, device=self.features.device)
        together = max(1, MOST_NUMBERS // self._gradients.size)
        for first in range(0, len(drawn), together):
            part = slice(first, first + together)
            read, shares = (torch.from_numpy(one[part]).to(self.features.device) for one in (images, weights))
            total += clipped_sum(self._gradients.weighted(self.features, self.labels, read, shares), self.clip_norm)
        own = list(self.network.parameters())
        sums = [flat.view_as(one) for flat, one in zip(total.split([one.numel() for one in own]), own, strict=True)]
        self.noise.add(sums)
        apply_gradient(self.optimizer, sums, self.divisor)
        return int(images.size)
