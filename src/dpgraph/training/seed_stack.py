"""One private step of all seeds of a cell at once, for devices on which starting an operation costs more than it does.

What has no parameters (gathering, means, attention, losses, norms, clip factors) runs once on the rows of all seeds; a
layer is applied to each seed's rows with that seed's parameters. A seed draws its batches and its noise from generators
of its own, and no value of one seed enters a sum of another, so that each has the guarantees of `training.clipping`.
Its parameters are those of the seed alone up to rounding: padded blocks of rows are cut differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from dpgraph.models.network import Network, owners
from dpgraph.sampling.ego import EgoBatch
from dpgraph.sampling.joined import JoinedBatch, joined_chunks
from dpgraph.training.clipping import clip_columns, clip_factors
from dpgraph.training.ghost import BatchRecorder, CallRows, LinearGradients, Recorder, RootGradients, ScalarGradients
from dpgraph.training.loop import note_diverged
from dpgraph.training.optimizers import apply_gradient
from dpgraph.training.steps import ClippedTerm, PrivateStep

Twins = Mapping[nn.Module, tuple[nn.Module, ...]]  # a layer of the first network -> the same layer of each


class SeedStack(nn.Module):
    """Networks of one architecture, one for each seed.

    `diverged_at` (S,) is the step after which a seed's parameters were found not to be finite, 0 if they were not.
    """

    diverged_at: Tensor

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        device = next(networks[0].parameters()).device
        self.register_buffer("diverged_at", torch.zeros(len(networks), dtype=torch.int64, device=device))

    @property
    def sound(self) -> list[int]:
        """Seeds that have not diverged; waits for the device."""
        return [seed for seed, at in enumerate(self.diverged_at.tolist()) if at == 0]

    def of(self, seeds: Iterable[int]) -> list[Network]:
        return [cast(Network, self.networks[seed]) for seed in seeds]


class SeedRecorder(Recorder):
    """A recorder of the first network's forward pass in which each seed's own layers are applied to its rows."""

    def __init__(self, twins: Twins, joined: JoinedBatch) -> None:
        super().__init__()
        self.twins, self.joined = twins, joined

    def on(self, batch: EgoBatch) -> BatchRecorder:
        return SeedBatchRecorder(self, batch)


@dataclass(frozen=True)
class SeedBatchRecorder(BatchRecorder):
    recorder: SeedRecorder

    def __call__(self, layer: nn.Module, rows: Tensor, level: int) -> Tensor:
        twins, joined, sizes = self.recorder.twins[layer], self.recorder.joined, self.batch.sizes[level]
        parts = rows.split(np.add.reduceat(sizes, joined.bounds[:-1]).tolist())
        output = torch.cat([twins[seed](part) for seed, part in zip(joined.seeds, parts, strict=True)])
        self.recorder.calls.append((layer, rows, get_gradient_edge(output), sizes))
        return output


@dataclass
class StackedPrivateStep:
    """The private steps of several seeds as one; they differ in data that a seed draws, not in shape.

    `optimizer` holds the parameters of all networks, in the order of the seeds. Seeds that have diverged do not change.
    """

    stack: SeedStack
    steps: Sequence[PrivateStep]
    optimizer: torch.optim.Optimizer

    def __post_init__(self) -> None:
        self._running: list[int] | None = None

    def __call__(self) -> int:
        if self._running is None:
            self._running = self.stack.sound
        steps = [self.steps[seed] for seed in self._running]
        networks = self.stack.of(self._running)
        sums = [[torch.zeros_like(parameter) for parameter in network.parameters()] for network in networks]
        read = 0
        for terms in zip(*(step.terms for step in steps), strict=True):
            positions = [term.draws.next() for term in terms]
            first = steps[0]
            clipped = clipped_gradient_sums(networks, terms, positions, first.features, first.labels)
            for mine, parts in zip(sums, clipped, strict=True):
                for total, part in zip(mine, parts, strict=True):
                    total += part
            read += sum(map(len, positions))
        still = [torch.zeros_like(parameter) for parameter in self.stack.networks[0].parameters()]
        gradients = [still] * len(self.steps)
        for seed, step, mine in zip(self._running, steps, sums, strict=True):
            step.noise.add(mine)
            gradients[seed] = mine
        apply_gradient(self.optimizer, [part for mine in gradients for part in mine], self.steps[0].divisor)
        return read

    def check(self, done: int) -> None:
        """Notes seeds whose parameters are not finite, which fail alone; raises Diverged when all have."""
        lost = [
            torch.stack([~torch.isfinite(parameter).all() for parameter in network.parameters()]).any()
            for network in self.stack.networks
        ]
        self._running = None
        note_diverged(self.stack.diverged_at, torch.stack(lost), done)


def clipped_gradient_sums(
    networks: Sequence[Network],
    terms: Sequence[ClippedTerm],
    positions: Sequence[np.ndarray],
    features: Tensor,
    labels: Tensor,
) -> list[list[Tensor]]:
    """`clipped_gradient_sum` of each network over its own batch: one list of sums per seed, in parameter order."""
    first = networks[0]
    twins: Twins = {layers[0]: layers for layers in zip(*map(owners, networks), strict=True)}
    sums: list[dict[Tensor, Tensor]] = [{p: torch.zeros_like(p) for p in network.parameters()} for network in networks]
    columns = [clip_columns(network, term.clip_norms) for network, term in zip(networks, terms, strict=True)]
    column = columns[0][0]
    limits = torch.tensor([limit for _, limit in columns], dtype=features.dtype).to(features.device, non_blocking=True)
    losses = terms[0].losses
    for joined in joined_chunks([term.trees for term in terms], positions):
        recorder = SeedRecorder(twins, joined)
        values = losses(first, joined.batch, features, labels, recorder)
        by_layer = recorder.gradients(values)
        counts = torch.from_numpy(np.diff(joined.bounds)).to(features.device, non_blocking=True)
        mine = torch.tensor(joined.seeds).to(features.device, non_blocking=True)
        bounds = torch.repeat_interleave(limits[mine], counts, dim=0, output_size=joined.batch.num_roots)
        _, factors, finite = clip_factors(by_layer, values.detach(), column, bounds)
        for seed, (begin, end) in zip(joined.seeds, pairwise(joined.bounds.tolist()), strict=True):
            for layer, gradients in by_layer.items():
                part = _of_roots(gradients, twins[layer][seed], begin, end)
                part.add_weighted(sums[seed], factors[begin:end, column[layer]], finite[begin:end])
        del by_layer, gradients, part  # before the next piece is computed: they are the most of its memory
    return [list(mine.values()) for mine in sums]


def _of_roots(gradients: RootGradients, layer: nn.Module, begin: int, end: int) -> RootGradients:
    """Those of the roots `begin` to `end`, as gradients of another seed's layer."""
    if isinstance(gradients, ScalarGradients):
        return ScalarGradients(layer, gradients.values[begin:end], gradients.scales[begin:end])  # type: ignore[arg-type]
    if isinstance(gradients, LinearGradients):
        return LinearGradients(layer, tuple(_part(rows, begin, end) for rows in gradients.calls))  # type: ignore[arg-type]
    raise TypeError(f"{type(gradients).__name__}: expected gradients that the ghost engine supports")


def _part(rows: CallRows, begin: int, end: int) -> CallRows:
    first, last = int(rows.sizes[:begin].sum()), int(rows.sizes[:end].sum())
    return CallRows(rows.inputs[first:last], rows.gradients[first:last], rows.sizes[begin:end])
