"""Opacus as a second engine: its gradients of single records, and its accountant as a second opinion of epsilon.

`opacus_gradients` takes the place of the closed forms in `training.clipping.clipped_gradient_sum`. All else of a step
is this package's: batches, clip factors, noise, divisor and accountant, so the accounted step is the one that runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.errors import invalid
from dpgraph.engine.models.dense import Dense, apply_layer
from dpgraph.engine.models.network import Network, owners
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees
from dpgraph.engine.training.clipping import Part, RootLosses, root_losses
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.procedure import NotAsAccounted

MOST_NUMBERS = 2**24  # of gradients that are formed at once
APART = 0.005  # most by which Opacus' epsilon may differ from ours, relative
INTERVAL = 0.001  # width of the interval whose upper end Opacus returns, relative to ours


@dataclass(frozen=True)
class FormedGradients:
    """The gradients of one layer's parameters, (B, ...) for each of them."""

    by_parameter: dict[Tensor, Tensor]

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """Return squared norms, which are their own rounding scales.

        In the squared norm of a vector that was formed, no terms cancel.
        """
        squares = torch.stack([one.flatten(1).square().sum(1) for one in self.by_parameter.values()]).sum(0)
        return squares, squares

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        for parameter, each in self.by_parameter.items():
            kept = each if finite is None else each[finite]
            weights = None if factors is None else factors if finite is None else factors[finite]
            sums[parameter] += kept.sum(0) if weights is None else torch.tensordot(weights, kept, dims=1)


class NoRecorder:
    """A stand-in for the recorder of `RootLosses`: Opacus records by hooks."""

    def on(self, batch: EgoBatch) -> Dense:
        return apply_layer


def opacus_gradients(
    network: Network,
    trees: EgoTrees,
    positions: np.ndarray,
    features: Tensor,
    labels: Tensor,
    losses: RootLosses = root_losses,
    inputs: TreeInputs | None = None,
) -> Iterator[Part]:
    """Form the gradient of each root by Opacus, for at most `MOST_NUMBERS` numbers at once.

    A row of a layer's input must be a root: a root with neighbours has several, which Opacus would take for as many
    records and whose gradients would be clipped one by one. Raises UserError for a network with hops.
    """
    if network.hops or trees.hops:
        raise invalid("engine", "opacus", "own for a network with hops: Opacus clips rows, not neighbourhoods")
    from opacus.grad_sample import GradSampleModule

    layers, parameters = owners(network), list(network.parameters())
    rows = max(1, MOST_NUMBERS // sum(one.numel() for one in parameters))
    module = GradSampleModule(network, loss_reduction="sum")
    try:
        for start in range(0, len(positions), rows):
            for batch in trees.chunks(positions[start : start + rows]):
                values = losses(network, batch, features, labels, NoRecorder())  # type: ignore[arg-type]
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "Full backward hook is firing", UserWarning)
                    values.sum().backward()
                by_layer = {
                    layer: FormedGradients({one: one.grad_sample for one in layer.parameters()})  # type: ignore[attr-defined]
                    for layer in layers
                }
                module.zero_grad(set_to_none=True)
                yield start + batch.places, by_layer, values.detach()
    finally:
        module.to_standard_module()


def checked_epsilon(calibration: Calibration) -> float:
    """Return Opacus' epsilon for the calibrated q, noise and T. Raise NotAsAccounted where it is not ours."""
    run: Any = calibration.mechanism
    return _checked(run.sampling_rate, *run.closed(), run.delta, calibration.statement.rigorous.epsilon or 0.0)


@lru_cache(maxsize=256)  # once for all seeds
def _checked(rate: float, steps: int, noise: float, delta: float, ours: float) -> float:
    theirs = prv_epsilon(rate, noise, steps, delta, INTERVAL * ours)
    if not abs(theirs - ours) <= APART * ours:
        raise NotAsAccounted(f"epsilon={ours:.6g}: Opacus' accountant gives {theirs:.6g}: expected at most 0.5 % apart")
    return theirs


def prv_epsilon(rate: float, noise: float, steps: int, delta: float, error: float = 0.01) -> float:
    """Return the upper end of an interval of width `error` by Opacus' accountant (Gopi et al. 2021)."""
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(delta, eps_error=error))
