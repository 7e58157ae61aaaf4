"""Scale, then privatise: gradients in the coordinates of Adam's own preconditioner, clipped and noised there.

A gradient is multiplied, coordinate by coordinate, with a scale that follows from what was released in earlier steps,
clipped and summed; noise is added, and the sum divided by the scale again. Given the past, the scale is a constant, so
that a step is the Gaussian mechanism that it is without one (docs/privacy.md, Theorem S). For softmax regression, whose
gradients need not be formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpgraph.models.network import Network
from dpgraph.training.optimizers import apply_gradient
from dpgraph.training.precision import enlarged_norms
from dpgraph.training.steps import PrivateStep

ROWS = 1 << 13  # records at once


def released_scales(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """One number for each coordinate of each parameter, from Adam's second moments of released gradients alone.

    s = c r / (sqrt(v) + r): r^2 is the mean of all v, and c such that a gradient of these moments keeps its norm.
    Ones before the first step.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states = [optimizer.state.get(parameter, {}) for parameter in parameters]
    if any("exp_avg_sq" not in state for state in states):
        return [torch.ones_like(parameter) for parameter in parameters]
    moments = [
        state["exp_avg_sq"] / (1 - optimizer.param_groups[0]["betas"][1] ** float(state["step"])) for state in states
    ]
    flat = torch.cat([one.flatten() for one in moments]).double()
    mean = flat.mean().sqrt()
    scales = mean / (flat.sqrt() + mean)
    scales *= (flat.sum() / (scales.square() * flat).sum()).sqrt()
    if not bool((torch.isfinite(scales) & (scales > 0)).all()):
        return [torch.ones_like(parameter) for parameter in parameters]
    parts = scales.split([one.numel() for one in moments])
    return [part.view_as(one).to(one.dtype) for part, one in zip(parts, moments, strict=True)]


def softmax_layer(network: nn.Module) -> nn.Linear:
    """The one layer of a softmax regression; raises TypeError for any other network."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if len(layers) != 1 or layers[0].bias is None or len(list(network.parameters())) != 2:
        raise TypeError("scaled gradients: expected a softmax regression")
    return layers[0]


@torch.no_grad()
def scaled_clipped_sum(
    network: Network, features: Tensor, labels: Tensor, nodes: Tensor, clip_norm: float, scales: list[Tensor]
) -> list[Tensor]:
    """sum_v c_v s * grad_v over `nodes`, c_v = min(1, C / ||s * grad_v||), of the weights and of the bias.

    As in `training.clipping`: norms are enlarged for their rounding; a gradient that is not finite contributes 0, and
    so does a node without a label.
    """
    layer, (of_weights, of_bias) = softmax_layer(network), scales
    totals = [torch.zeros_like(layer.weight), torch.zeros_like(layer.bias)]
    for part in _parts(nodes):
        rows, target = features[part], labels[part]
        wrong = torch.softmax(layer(rows), dim=1)
        known = target >= 0
        wrong[known, target[known]] -= 1
        wrong[~known] = 0
        lengths = rows.square() @ of_weights.square().T + of_bias.square()
        squared = (lengths * wrong.square()).sum(dim=1)
        norms = enlarged_norms(squared, squared)
        finite = torch.isfinite(norms)
        factors = torch.clamp_max(clip_norm / norms, 1)
        wrong = (wrong * factors[:, None]).masked_fill_(~finite[:, None], 0)
        totals[0] += wrong.T @ rows.masked_fill(~finite[:, None], 0)
        totals[1] += wrong.sum(dim=0)
    return [total * scale for total, scale in zip(totals, scales, strict=True)]


def _parts(nodes: Tensor) -> Iterator[Tensor]:
    return iter(nodes.split(ROWS)) if len(nodes) else iter(())


@dataclass(frozen=True)
class ScaledStep(PrivateStep):
    """`PrivateStep` of a softmax regression in the coordinates of `released_scales`."""

    @classmethod
    def of(cls, step: PrivateStep) -> ScaledStep:
        softmax_layer(step.network)
        (term,) = step.terms
        if not isinstance(term.clip_norms, float | int) or term.trees.hops:
            raise TypeError("scaled gradients: expected one clip norm, and records without neighbours")
        return cls(
            step.network, step.optimizer, step.features, step.labels, step.terms, step.noise, step.divisor
        )  # fmt: skip

    def __call__(self) -> int:
        (term,) = self.terms
        positions = term.draws.next()
        nodes = term.trees.roots[torch.from_numpy(term.trees.rank[positions]).to(self.features.device)]
        clip_norm = float(term.clip_norms)  # type: ignore[arg-type]
        scales = released_scales(self.optimizer)
        sums = scaled_clipped_sum(self.network, self.features, self.labels, nodes, clip_norm, scales)
        self.noise.add(sums)
        for total, scale in zip(sums, scales, strict=True):
            total /= scale
        apply_gradient(self.optimizer, sums, self.divisor)
        return len(positions)
