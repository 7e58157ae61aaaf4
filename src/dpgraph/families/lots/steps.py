"""Steps over lots of records: one clipped mean gradient a lot (Igamberdiev and Habernal, App. F, as released)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.ego import EgoTrees
from dpgraph.engine.training.clipping import gradient_sum, root_cross_entropy
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.fused.network import has_closed_form
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import apply_gradient
from dpgraph.privacy.procedure import Batches


@dataclass(frozen=True)
class LotSchedule:
    """Each epoch cuts a fresh permutation of all records into lots of `size`, the last one maybe smaller.

    A function of names and step alone: a resumed run goes on in the middle of its epoch.
    """

    num_records: int
    size: int
    names: tuple[Name, ...]
    name: Batches = Batches.SHUFFLED
    counts: Counter[str] = field(default_factory=Counter, compare=False)  # "draws" so far in this process
    _permutations: dict[int, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def per_epoch(self) -> int:
        return math.ceil(self.num_records / self.size)

    def lot(self, step: int) -> np.ndarray:
        """Positions of the records of step 0, 1, ..."""
        self.counts["draws"] += 1
        epoch, place = divmod(step, self.per_epoch)
        if epoch not in self._permutations:
            self._permutations.clear()
            self._permutations[epoch] = numpy_generator(*self.names, epoch).permutation(self.num_records)
        return self._permutations[epoch][place * self.size : (place + 1) * self.size]


@dataclass
class LotStep:
    """One clipped mean gradient of a lot, noised; clip norm inf: it is not clipped. Nothing is divided."""

    network: Network
    optimizer: torch.optim.Optimizer
    features: Tensor
    labels: Tensor
    records: EgoTrees
    lots: LotSchedule
    clip_norm: float
    noise: GaussianNoise
    done: int = 0

    def start_at(self, step: int) -> None:
        self.done = step

    def __call__(self) -> int:
        positions = self.lots.lot(self.done)
        self.done += 1
        gradient = clipped(self._mean_gradient(positions), self.clip_norm)
        self.noise.add(gradient)
        apply_gradient(self.optimizer, gradient, 1.0)
        return len(positions)

    def _mean_gradient(self, positions: np.ndarray) -> list[Tensor]:
        if has_closed_form(self.network):
            parts = gradient_sum(self.network, self.records, positions, self.features, self.labels, self._inputs)
            return [part / len(positions) for part in parts]
        parameters = list(self.network.parameters())
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for batch in self.records.chunks(positions):
            losses = root_cross_entropy(self.network(batch, self.features), self.labels[batch.roots])
            for part, gradient in zip(
                total, torch.autograd.grad(losses.sum() / len(positions), parameters), strict=True
            ):
                part += gradient
        return total

    @cached_property
    def _inputs(self) -> TreeInputs:
        return TreeInputs(self.records, self.features)


def clipped(gradient: list[Tensor], clip_norm: float) -> list[Tensor]:
    """All tensors as one vector of norm at most `clip_norm`; zero where any entry is not finite."""
    norm = torch.stack([torch.linalg.vector_norm(part, dtype=torch.float64) for part in gradient]).norm()
    factor = torch.clamp_max(clip_norm / norm, 1).to(gradient[0].dtype)
    return [torch.where(torch.isfinite(norm), part * factor, 0) for part in gradient]
