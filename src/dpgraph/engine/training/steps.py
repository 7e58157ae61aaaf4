"""One step of training, private or not. A step is an object without parameters that the loop calls T times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from dpgraph.engine.models.dense import Dense
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.segments import Segments
from dpgraph.engine.models.sparse import reading
from dpgraph.engine.sampling.batches import Draws, Sampler
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees, Hop
from dpgraph.engine.training import clipping
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.fused.network import has_closed_form
from dpgraph.engine.training.fused.records import records_of
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.optimizers import apply_gradient

Forward = Callable[[Network, EgoBatch, Tensor], Tensor]  # (B, classes) logits of the roots of a batch


class Step(Protocol):
    """A step that moves the parameters once and returns the number of its roots, which is private and not stored."""

    def __call__(self) -> int: ...


@runtime_checkable
class ScheduledStep(Step, Protocol):
    """A step whose batch depends on how many steps were done: a resumed run has to set it."""

    def start_at(self, step: int) -> None: ...


@dataclass(frozen=True)
class PlainStep:
    """A step on the mean cross-entropy of a batch, without privacy."""

    network: Network
    optimizer: torch.optim.Optimizer
    trees: EgoTrees
    features: Tensor
    labels: Tensor
    sampler: Sampler
    batches: np.random.Generator
    forward: Forward = Network.__call__

    def __call__(self) -> int:
        positions = self.sampler.draw(self.batches)
        if not self.fused:
            return _descend(self.optimizer, positions, self.losses)
        if len(positions):
            sums = clipping.gradient_sum(self.network, self.trees, positions, self.features, self.labels, self._inputs)
            apply_gradient(self.optimizer, sums, len(positions))
        return len(positions)

    @cached_property
    def fused(self) -> bool:
        """True if gradients come from closed forms."""
        return self.forward is Network.__call__ and has_closed_form(self.network)

    @cached_property
    def _inputs(self) -> TreeInputs:
        return TreeInputs(self.trees, self.features)

    def losses(self, positions: np.ndarray) -> Iterator[Tensor]:
        """Yield the summed losses of a batch in parts."""
        for batch in self.trees.chunks(positions):
            logits = self.forward(self.network, batch, self.features)
            yield clipping.root_cross_entropy(logits, self.labels[batch.roots]).sum()


@dataclass(frozen=True)
class WholeGraphLoss:
    """The loss of `PlainStep` on ego trees of whole lists, computed once per node instead of once per tree.

    States depend on the node alone, not on whose tree it is in, so the loss and its gradient are the same; the
    cost is one pass over the graph, whatever the batch. `hop` holds every node's closed list; None without hops.
    Dropout draws one mask for each node, not one for each tree that it is in.
    """

    network: Network
    hop: Hop | None
    roots: Tensor  # (R,) int64 node ids
    features: Tensor
    labels: Tensor

    def __call__(self, positions: Tensor) -> Tensor:
        """Return the mean cross-entropy of the roots at `positions` (b,), at least one."""
        chosen = self.roots[positions]
        states = self.network.on_graph(self.features, self._segments, self._dense)
        logits = self.network.decoder(states[chosen])
        return clipping.root_cross_entropy(logits, self.labels[chosen]).sum() / len(positions)

    @cached_property
    def _dense(self) -> Dense:
        return reading(self.features)

    @cached_property
    def _segments(self) -> Segments | None:
        return None if self.hop is None else Segments.of_graph(self.hop)


@dataclass(frozen=True)
class BatchStep:
    """A step against a loss of a batch, without privacy; `loss` takes (b,) positions on the device.

    `masks` are the generators that the loss draws from.
    """

    optimizer: torch.optim.Optimizer
    sampler: Sampler
    batches: np.random.Generator
    loss: Callable[[Tensor], Tensor]
    device: torch.device
    masks: Sequence[torch.Generator] = ()

    def __call__(self) -> int:
        positions = self.sampler.draw(self.batches)
        self.move(torch.from_numpy(positions).to(self.device))
        return len(positions)

    def move(self, positions: Tensor) -> None:
        """Move the parameters against the loss of the batch at these positions."""
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(positions).backward()
        self.optimizer.step()


def _descend(
    optimizer: torch.optim.Optimizer, positions: np.ndarray, losses: Callable[[np.ndarray], Iterator[Tensor]]
) -> int:
    """Move against the mean loss of a batch, given as sums over parts of it; an empty batch moves no parameter."""
    if len(positions):
        optimizer.zero_grad(set_to_none=True)
        for loss in losses(positions):
            (loss / len(positions)).backward()
        optimizer.step()
    return len(positions)


@dataclass(frozen=True)
class ClippedTerm:
    """One clipped sum of a step, with batches of its own."""

    trees: EgoTrees
    draws: Draws
    clip_norms: clipping.ClipNorms
    losses: clipping.RootLosses = clipping.root_losses


@dataclass(frozen=True)
class PrivateStep:
    """Noisy sum of clipped gradients (Algorithms 4 and 5 of Daigavane et al.).

    Each of `terms` draws its own batch, independently; noise is added once, to the sum of all of them. One term is
    DP-GNN or DP-MLP; `root_losses` on trees of empty lists and `neighbour_losses` are residual clipping. `divisor` is
    the public m or q N. `engine` forms the gradients, None: `training.clipping`. `preparation` builds it from a
    mechanism.
    """

    network: Network
    optimizer: torch.optim.Optimizer
    features: Tensor
    labels: Tensor
    terms: Sequence[ClippedTerm]
    noise: GaussianNoise
    divisor: float
    engine: clipping.Engine | None = None

    def __call__(self) -> int:
        sums: list[Tensor] = []
        read = 0
        for term, inputs in zip(self.terms, self._inputs, strict=True):
            positions = term.draws.next()
            clipped = clipping.clipped_gradient_sum(
                self.network, term.trees, positions, self.features, self.labels, term.clip_norms, term.losses, inputs,
                self.engine,
            )  # fmt: skip
            sums = [a.add_(b) for a, b in zip(sums, clipped.sums, strict=True)] if sums else clipped.sums
            read += len(positions)
        self.noise.add(sums)
        apply_gradient(self.optimizer, sums, self.divisor)
        return read

    @cached_property
    def _inputs(self) -> list[TreeInputs]:
        records = records_of(self.features)
        return [TreeInputs(term.trees, self.features, records) for term in self.terms]
