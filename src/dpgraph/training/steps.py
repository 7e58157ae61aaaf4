"""One step of training, private or not. A step is an object without parameters that the loop calls T times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.models.network import Network
from dpgraph.models.segments import Segments
from dpgraph.sampling.batches import Sampler
from dpgraph.sampling.ego import EgoBatch, EgoTrees, Hop
from dpgraph.training.clipping import ClipNorms, RootLosses, clipped_gradient_sum, root_losses
from dpgraph.training.noise import add_gaussian_noise
from dpgraph.training.optimizers import apply_gradient

Forward = Callable[[Network, EgoBatch, Tensor], Tensor]  # (B, classes) logits of the roots of a batch


class Step(Protocol):
    """Moves the parameters once; returns the number of roots it read (throughput only: the number is private)."""

    def __call__(self) -> int: ...


@runtime_checkable
class ScheduledStep(Step, Protocol):
    """A step whose batch depends on how many steps were done: a resumed run has to tell it."""

    def start_at(self, step: int) -> None: ...


@dataclass(frozen=True)
class PlainStep:
    """Mean cross-entropy of a batch, without privacy."""

    network: Network
    optimizer: torch.optim.Optimizer
    trees: EgoTrees
    features: Tensor
    labels: Tensor
    sampler: Sampler
    batches: np.random.Generator
    forward: Forward = Network.__call__

    def __call__(self) -> int:
        return _descend(self.optimizer, self.sampler.draw(self.batches), self._losses)

    def _losses(self, positions: np.ndarray) -> Iterator[Tensor]:
        for batch in self.trees.chunks(positions):
            logits = self.forward(self.network, batch, self.features)
            yield nn.functional.cross_entropy(logits, self.labels[batch.roots], reduction="sum")


@dataclass(frozen=True)
class WholeGraphStep:
    """`PlainStep` on ego trees of whole lists, computed once per node instead of once per tree.

    States depend on the node alone, not on whose tree it stands in, so the loss and its gradient are the same; the
    cost is one pass over the graph, whatever the batch. `hop` holds every node's closed list.
    """

    network: Network
    optimizer: torch.optim.Optimizer
    hop: Hop
    roots: Tensor  # (R,) int64 node ids
    features: Tensor
    labels: Tensor
    sampler: Sampler
    batches: np.random.Generator

    def __call__(self) -> int:
        return _descend(self.optimizer, self.sampler.draw(self.batches), self._losses)

    def _losses(self, positions: np.ndarray) -> Iterator[Tensor]:
        chosen = self.roots[torch.from_numpy(positions).to(self.roots.device, non_blocking=True)]
        states = self.network.encoder(self.features)
        for layer in self.network.aggregation:
            states = layer(states, self._segments)
        logits = self.network.decoder(states[chosen])
        yield nn.functional.cross_entropy(logits, self.labels[chosen], reduction="sum")

    @cached_property
    def _segments(self) -> Segments:
        return Segments.of_graph(self.hop)


def _descend(
    optimizer: torch.optim.Optimizer, positions: np.ndarray, losses: Callable[[np.ndarray], Iterator[Tensor]]
) -> int:
    """Moves against the mean loss of a batch, given as sums over parts of it; an empty batch moves nothing."""
    if len(positions):
        optimizer.zero_grad(set_to_none=True)
        for loss in losses(positions):
            (loss / len(positions)).backward()
        optimizer.step()
    return len(positions)


@dataclass(frozen=True)
class ClippedTerm:
    """A Poisson or fixed-size batch of its own and the clipped sum that it contributes to a step."""

    trees: EgoTrees
    sampler: Sampler
    clip_norms: ClipNorms
    losses: RootLosses = root_losses


@dataclass(frozen=True)
class PrivateStep:
    """Noisy sum of clipped gradients (Algorithms 4 and 5 of Daigavane et al.).

    Each of `terms` draws its own batch, independently; noise is added once, to the sum of all of them. One term is
    DP-GNN or DP-MLP; `root_losses` on trees of empty lists and `neighbour_losses` are residual clipping. `noise_std` is
    the standard deviation on that sum (one number, or one per parameter), `divisor` the public m or q N.
    """

    network: Network
    optimizer: torch.optim.Optimizer
    features: Tensor
    labels: Tensor
    terms: Sequence[ClippedTerm]
    noise_std: float | Sequence[float]
    divisor: float
    batches: np.random.Generator
    noise: torch.Generator

    def __call__(self) -> int:
        sums = [torch.zeros_like(p) for p in self.network.parameters()]
        read = 0
        for term in self.terms:
            positions = term.sampler.draw(self.batches)
            clipped = clipped_gradient_sum(
                self.network, term.trees, positions, self.features, self.labels, term.clip_norms, term.losses
            )
            for total, part in zip(sums, clipped.sums, strict=True):
                total += part
            read += len(positions)
        add_gaussian_noise(sums, self.noise_std, self.noise)
        apply_gradient(self.optimizer, sums, self.divisor)
        return read
