"""Steps over tuples of a relation: losses, the clipped sum of a batch, and the noisy step (Huang et al., Algorithm 3).

A tuple holds a head, its tail and k negatives; its score of entity j is the inner product of the states of head and j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import apply_gradient
from dpgraph.families.tuples.sampling import TupleBatches, largest_counts
from dpgraph.privacy.procedure import Clipped


@dataclass(frozen=True)
class TupleLoss:
    """InfoNCE (van den Oord et al. 2018) of scores (b, 1 + k), the true tail's first: -ln softmax(s / tau)_0."""

    temperature: float = 1.0  # tau

    def __call__(self, scores: Tensor) -> Tensor:
        """Return the (b,) losses of tuples with these scores."""
        return -torch.log_softmax(scores / self.temperature, dim=1)[:, 0]

    def slopes(self, scores: Tensor) -> Tensor:
        """Return the (b, 1 + k) derivatives of each tuple's loss by each of its scores."""
        slopes = torch.softmax(scores / self.temperature, dim=1)
        slopes[:, 0] -= 1
        return slopes / self.temperature


@dataclass(frozen=True)
class ClippedTuples:
    """`sums`: for each parameter the sum over tuples of the gradient, scaled to its limit; `norms` (b,) before that,
    enlarged by what rounding may add."""

    sums: list[Tensor]
    norms: Tensor


class TupleModel(Protocol):
    """A model that is trained on tuples: scores are a function of its parameters."""

    @property
    def network(self) -> nn.Module:
        """Return the network whose parameters are trained, in the order of the sums."""

    def clipped(self, batch: Tensor, limits: Tensor) -> ClippedTuples:
        """Return the sum over tuples (b, 2 + k) of joint gradients, scaled to at most their limits (b,).

        A limit of inf leaves a gradient as it is.
        """

    def states(self) -> Tensor:
        """Return the (N, d) states of all entities, or (N, 2, d) as head and as tail; inner products are scores."""


def clip_factors(norms: Tensor, limits: Tensor) -> Tensor:
    """Return (b,) min(1, limit / norm), a little less for rounding; 0 for a gradient that is not finite.

    What these factors multiply goes through `without_lost`: 0 times infinity is not 0.
    """
    slack = 1 - 1e-6 if norms.dtype == torch.float32 else 1 - 1e-12
    ratio = torch.where(limits >= norms, torch.ones_like(norms), slack * limits / norms)
    return torch.where(torch.isfinite(norms), ratio, torch.zeros_like(norms))


def without_lost(rows: Tensor, norms: Tensor) -> Tensor:
    """Return rows (b, ...) of tuples with zeros where the norm (b,) of a tuple's gradient is not finite."""
    lost = ~torch.isfinite(norms)
    return rows.masked_fill(lost.view(-1, *(1,) * (rows.dim() - 1)), 0)


@dataclass
class RelationStep:
    """Noisy sum of clipped gradients of a Poisson batch. `preparation` builds it from a mechanism."""

    model: TupleModel
    optimizer: torch.optim.Optimizer
    batches: TupleBatches
    clipped: Clipped
    clip_norm: float
    noise: GaussianNoise
    divisor: float
    device: torch.device

    def __call__(self) -> int:
        batch = torch.from_numpy(self.batches.next()).to(self.device)
        found = self.model.clipped(batch, self.limits(batch))
        self.noise.add(found.sums)
        apply_gradient(self.optimizer, found.sums, self.divisor)
        return len(batch)

    def limits(self, batch: Tensor) -> Tensor:
        """Return the (b,) limits: C, or in the paper's Algorithm 1 C over the largest count of a tuple's entities."""
        limits = torch.full((len(batch),), self.clip_norm, dtype=torch.float64, device=batch.device)
        if self.clipped is Clipped.ROOT_COUNTS:
            limits = self.clip_norm / largest_counts(batch).double()
        return limits.to(next(self.model.network.parameters()).dtype)


@dataclass
class PlainRelationStep:
    """Mean gradient of a batch, without privacy."""

    model: TupleModel
    optimizer: torch.optim.Optimizer
    batches: TupleBatches
    device: torch.device

    def __call__(self) -> int:
        batch = torch.from_numpy(self.batches.next()).to(self.device)
        if len(batch):
            apply_gradient(self.optimizer, self.unlimited(batch).sums, len(batch))
        return len(batch)

    def unlimited(self, batch: Tensor) -> ClippedTuples:
        """Return the sum of the gradients of tuples (b, 2 + k)."""
        dtype = next(self.model.network.parameters()).dtype
        return self.model.clipped(batch, torch.full((len(batch),), torch.inf, device=batch.device, dtype=dtype))
