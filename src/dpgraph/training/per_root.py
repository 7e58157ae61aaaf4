"""Gradients of single roots formed one by one with `torch.func`: slow, for any differentiable network.

The fallback for parameters of layers whose gradients the ghost engine does not support, and its oracle in tests: it
shares neither the algebra of norms nor the operators on packed rows. Memory: gradients of all parameters for a stack of
roots.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.models.dense import Dense, apply_layer
from dpgraph.models.padded import PaddedTrees, padded_stacks
from dpgraph.sampling.ego import EgoTrees

log = logging.getLogger("dpgraph")


@dataclass(frozen=True)
class FormedGradients:
    """Of the parameters that one module owns."""

    gradients: dict[Tensor, Tensor]  # parameter -> (B, *shape)

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """(B,) squared norms; sums of squares do not cancel, so that they are their own rounding scale."""
        norms = torch.stack([_rows(gradient).square().sum(1) for gradient in self.gradients.values()]).sum(0)
        return norms, norms

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        for parameter, gradient in self.gradients.items():
            rows = _rows(gradient)
            if finite is not None:
                rows = rows.masked_fill(~finite.unsqueeze(1), 0)
            sums[parameter] += (rows.sum(0) if factors is None else torch.mv(rows.T, factors)).view_as(parameter)


class Unrecorded:
    """The recorder of an engine that needs none."""

    def on(self, batch: object) -> Dense:
        return apply_layer


class _Losses(nn.Module):
    """Gives `functional_call` whatever part of the network the losses call."""

    def __init__(self, network: nn.Module, losses: Callable[..., Tensor]) -> None:
        super().__init__()
        self.network, self.losses = network, losses

    def forward(self, tree: PaddedTrees, features: Tensor, labels: Tensor) -> Tensor:
        return self.losses(self.network, tree, features, labels, Unrecorded()).sum()


def formed_gradients(
    network: nn.Module,
    trees: EgoTrees,
    positions: np.ndarray,
    features: Tensor,
    labels: Tensor,
    losses: Callable[..., Tensor],
) -> Iterator[tuple[np.ndarray, dict[nn.Module, FormedGradients], Tensor]]:
    """Per stack of roots: their places in `positions`, gradients by owning module, (B,) losses."""
    of_tree = _Losses(network, losses)
    parameters = {name: parameter.detach() for name, parameter in of_tree.named_parameters()}
    by_name = dict(of_tree.named_parameters())
    owners = {module: dict(module.named_parameters(recurse=False)) for module in network.modules()}

    def loss(values: dict[str, Tensor], *tensors: Tensor) -> Tensor:
        arguments = (PaddedTrees.of_tensors(*tensors), features, labels)
        return torch.func.functional_call(of_tree, values, arguments)  # type: ignore[no-any-return]

    gradient_of = torch.func.grad_and_value(loss)
    for places, stack in padded_stacks(trees, positions, features.dtype):
        each = torch.func.vmap(gradient_of, in_dims=(None, *(0,) * len(stack.tensors)))
        formed, values = each(parameters, *stack.tensors)
        gradients = {parameter: formed[name] for name, parameter in by_name.items()}
        yield (
            places,
            {module: FormedGradients({p: gradients[p] for p in own.values()}) for module, own in owners.items() if own},
            values,
        )


def _rows(gradient: Tensor) -> Tensor:
    """(B, *shape) -> (B, numbers)."""
    return gradient.reshape(len(gradient), -1)


@cache
def announce(layers: str) -> None:
    """Logs once why training is slow."""
    log.info(
        "gradients of single roots are formed one by one, which is slow: %s is not supported by the fast engine", layers
    )
