"""Steps over units of images: the gradient of each drawn unit's mean loss, clipped as one vector (Zhang, Algorithm 5).

The gradient of a layer for unit u is a sum over the unit's images (and positions of a convolution) of weight x
derivative by output x input. One forward and one backward pass of a chunk of images gives derivatives and inputs of all
its units, one product the gradients of all of them. Of a linear layer and a single image both factors are kept instead:
their product is formed in the sum alone. Norms are of the numbers and factors that are added, so rounding of either
pass does not loosen the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from dpgraph.engine.sampling.batches import Draws
from dpgraph.engine.training.ghost import LayerRows
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import apply_gradient
from dpgraph.engine.training.precision import OPERANDS, operand_eps
from dpgraph.families.units.sampling import Units

# in one pass, and numbers of gradients that are formed at once: on a CPU those that stay in the cache
MOST_IMAGES = {"cpu": 128, "cuda": 1024}
MOST_NUMBERS = {"cpu": 2**20, "cuda": 2**24}
SLACK = 1 - 1e-6  # of a limit, for the roundings of what is added: seven at most, together 4.2e-7
LONGEST = 2.0**125  # of a gradient in clip norms, and of a factor: what scales a longer one would be a subnormal number

# gradients of u units by one parameter: (u, p) numbers, or a linear layer's factors (u, outputs) and (u, inputs)
Part = tuple[Tensor, ...]


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
        padded = any(getattr(layer, "padding_mode", "zeros") != "zeros" for layer in self.layers)
        if padded or [id(one) for one in held] != [id(one) for one in self.network.parameters()]:
            raise TypeError(
                "expected a network of linear layers and convolutions padded with zeros, in the order of its parameters"
            )
        self.size = sum(one.numel() for one in held)
        self.linear = sum(layer.weight.numel() for layer in self.layers if isinstance(layer, nn.Linear))

    def together(self, images: int, device: str) -> int:
        """Return how many units of so many images each are worked on at once."""
        formed = self.size - self.linear * (images == 1)  # numbers of a unit
        return max(1, min(MOST_IMAGES[device] // max(images, 1), MOST_NUMBERS[device] // max(formed, 1)))

    def weighted(self, pixels: Tensor, labels: Tensor, images: Tensor, weights: Tensor) -> list[Part]:
        """Return the gradients of the units' weighted cross-entropies; an image without label has gradient 0.

        Args:
            pixels: (N, F) images.
            labels: (N,) classes; -1: none.
            images: (u, m) ids of each unit's images.
            weights: (u, m) weights of their losses.

        Returns:
            A part for each parameter, in their order.
        """
        columns, total = max(1, MOST_IMAGES[pixels.device.type] // max(len(images), 1)), list[Part]()
        for chosen, shares in zip(images.split(columns, dim=1), weights.split(columns, dim=1), strict=True):
            ids = chosen.flatten()
            parts = self._parts(pixels[ids], labels[ids], shares, factors=images.shape[1] == 1)
            total = [(one + more,) for (one,), (more,) in zip(total, parts, strict=True)] if total else parts
        return total

    def _parts(self, pixels: Tensor, labels: Tensor, weights: Tensor, factors: bool) -> list[Part]:
        rows = LayerRows()
        with rows.recorded(self.layers), torch.enable_grad():
            losses = nn.functional.cross_entropy(self.network(pixels), labels, reduction="none", ignore_index=-1)
            # a unit's mean is its own: no number of another unit enters it
            slopes = torch.autograd.grad(
                (losses * weights.flatten()).sum(), [rows.outputs[number] for number in range(len(self.layers))]
            )
        units, parts = len(weights), list[Part]()
        for number, (layer, slope) in enumerate(zip(self.layers, slopes, strict=True)):
            slope, inputs = (one.unflatten(0, (units, -1)) for one in (slope, rows.inputs[number]))
            if isinstance(layer, nn.Conv2d):
                parts.append((convolved(layer, slope, inputs),))
                slope = slope.sum((3, 4))
            elif factors and slope.shape[1] == 1:
                parts.append((slope[:, 0], inputs[:, 0]))
            else:
                parts.append((torch.bmm(slope.mT, inputs).flatten(1),))
            if layer.bias is not None:
                parts.append((slope.sum(1),))
        return parts


def convolved(layer: nn.Conv2d, slopes: Tensor, inputs: Tensor) -> Tensor:
    """Return the gradients (u, p) by a convolution's weights, each unit's channels a group of one convolution.

    `slopes` (u, m, outputs, height, width) are derivatives by the layer's output, `inputs` (u, m, channels, ...) its
    input.
    """
    units, (outputs, *rest) = len(slopes), layer.weight.shape
    inputs, slopes = (one.transpose(0, 1).flatten(1, 2) for one in (inputs, slopes))
    return conv2d_weight(
        inputs, (units * outputs, *rest), slopes, layer.stride, layer.padding, layer.dilation, units  # type: ignore[arg-type]
    ).reshape(units, -1)  # fmt: skip


def clipped_sum(parts: list[Part], clip_norm: float) -> list[Tensor]:
    """Return the sum of units' gradients, scaled to norm at most `clip_norm`: (p,) or (outputs, inputs) for each part.

    A gradient that is not finite, or longer than `LONGEST` clip norms, or with a factor longer than `LONGEST`, is 0.
    Sums are products of matrices. No cell asks for rounded operands; where PyTorch rounds them nonetheless, norms are
    enlarged for it (Theorem 2 of docs/privacy/shared.md).
    """
    lengths = [[torch.linalg.vector_norm(one, dim=1, dtype=torch.float64) for one in part] for part in parts]
    products = [torch.stack(own).prod(0) for own in lengths]  # of two factors the length of their product
    norms = torch.stack(products).norm(dim=0) * (1 + OPERANDS * operand_eps(parts[0][0]))
    longest = torch.stack([length for own in lengths for length in own]).amax(dim=0)
    kept = (norms <= LONGEST * clip_norm) & (longest <= LONGEST)  # false for what is not a number
    scales, sums = torch.where(kept, (SLACK * clip_norm / norms).clamp_max(1), 0), list[Tensor]()
    for part, own, product in zip(parts, lengths, products, strict=True):
        first, *second = (torch.where(kept[:, None], one, 0) for one in part)
        if not second:
            sums.append(scales.to(first.dtype) @ first)
            continue
        # both factors of length 1, so that nothing enlarges a subnormal number
        shares = [1 / torch.where(kept, length, 1).clamp_min(torch.finfo(torch.float32).tiny) for length in own]
        first, inputs = (
            one * share[:, None].to(one.dtype) for one, share in zip((first, *second), shares, strict=True)
        )
        sums.append((first * torch.where(kept, scales * product, 0)[:, None].to(first.dtype)).mT @ inputs)
    return sums


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
        sums = [torch.zeros_like(one) for one in self.network.parameters()]
        together = self._gradients.together(images.shape[1], self.features.device.type)
        for first in range(0, len(drawn), together):
            part = slice(first, first + together)
            read, shares = (torch.from_numpy(one[part]).to(self.features.device) for one in (images, weights))
            gradients = self._gradients.weighted(self.features, self.labels, read, shares)
            for total, more in zip(sums, clipped_sum(gradients, self.clip_norm), strict=True):
                total += more.view_as(total)
        self.noise.add(sums)
        apply_gradient(self.optimizer, sums, self.divisor)
        return int(images.size)
