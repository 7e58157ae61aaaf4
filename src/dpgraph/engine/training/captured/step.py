"""The program of a private step on ego trees.

**The accounted step is the one that runs.** The program of a private step reads samplers, clip norms, noise and divisor
from the objects of the `PrivateStep` that it stands for. It counts its draws and its noise in them, so that
`preparation` compares them with the mechanism as for every step. Numbers that a captured program holds are compared
with those objects at every step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpgraph.core.randomness import Key
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.batches import Draws
from dpgraph.engine.training.captured import program as programs
from dpgraph.engine.training.clipping import CLOSED_FORMS, clip_columns, clip_factors, clipped_gradient_sum, root_losses
from dpgraph.engine.training.fused.layers import SlotRecords
from dpgraph.engine.training.fused.network import Parts
from dpgraph.engine.training.precision import operand_eps
from dpgraph.engine.training.steps import PrivateStep


class TreeRecords:
    """The records (N, F) of all nodes, which do not change, as trees in slots read them."""

    def __init__(self, features: Tensor) -> None:
        self.values, self.finite = features, bool(torch.isfinite(features).all())

    def parts(self, network: Network, source: programs.TreeSource, losses: Any = root_losses) -> Parts:
        """Return gradients and losses of the trees in the slots."""
        batch = source.batch
        read = SlotRecords(self.values.index_select(0, batch.nodes), batch.sizes[-1], self.finite)
        return CLOSED_FORMS[losses](network, batch, read, source.slots.labels)


class CapturedStep(programs.CapturedProgram):
    """The program of a private step."""

    sums_alone = True

    def __init__(self, step: PrivateStep, key: Key | None, ahead_steps: int = programs.AHEAD) -> None:
        """Lay out the trees of every term in slots; without a key batches and noise are those of the usual step."""
        self.step, self.usual, features = step, key is None, step.features

        def batches(index: int, draws: Draws) -> programs.DrawnBatches:
            if key is None:
                return programs.HostBatches(draws.sampler, draws.generator)
            return programs.DeviceBatches(draws.sampler, key, index)

        self.slots = [
            programs.TreeSource(term.trees, batches(index, term.draws), step.labels, features.dtype)
            for index, term in enumerate(step.terms)
        ]
        super().__init__(step.optimizer, self.slots, [step.noise.generator], 1 if key is None else ahead_steps)
        columns = [clip_columns(step.network, term.clip_norms) for term in step.terms]
        self.columns = [column for column, _ in columns]
        self.limits = [torch.tensor(limits, dtype=features.dtype, device=self.device) for _, limits in columns]
        self.records = TreeRecords(features)
        self.noise = torch.empty_like(self.flat)
        self.scale = self._scale()
        self._baked = self._numbers()

    def check(self) -> None:
        if self._baked != self._numbers():
            raise TypeError(
                "clip norms, noise, divisor, learning rate or precision changed after the step was captured"
            )

    def count(self, step: int) -> None:
        super().count(step)
        for term in self.step.terms:
            term.draws.count += 1
        if not self.usual:
            self.step.noise.draws += 1
            self.step.noise.numbers += self.flat.numel()

    def program(self) -> None:
        self.summed()
        self.release()

    def run_without_slots(self, step: int) -> None:
        self.sum_without_slots(step)
        self.release()

    @torch.no_grad()
    def sum_slots(self) -> None:
        """Write the clipped sums of all terms to `flat`."""
        self.flat.zero_()
        for source, term, column, limits in zip(self.slots, self.step.terms, self.columns, self.limits, strict=True):
            by_layer, losses = self.records.parts(self.step.network, source, term.losses)
            _, factors, finite = clip_factors(by_layer, losses, column, limits)
            for layer, gradients in by_layer.items():
                gradients.add_weighted(self.sums, factors[:, column[layer]], finite)

    @torch.no_grad()
    def sum_without_slots(self, step: int) -> None:
        """Write the same sums for a batch of any size to `flat`."""
        self.flat.zero_()
        own = self.step
        for source, term in zip(self.slots, own.terms, strict=True):
            clipped = clipped_gradient_sum(
                own.network, term.trees, source.positions(step), own.features, own.labels, term.clip_norms, term.losses
            )
            for total, part in zip(self.sums.values(), clipped.sums, strict=True):
                total += part

    @torch.no_grad()
    def release(self) -> None:
        """Add noise once to the joint vector, divide by the public divisor, and update the parameters."""
        noise = self.step.noise
        if self.usual:
            noise.add(list(self.sums.values()))
        elif self.scale is None:
            self.flat.add_(self.noise.normal_(generator=noise.generator), alpha=float(noise.std))  # type: ignore[arg-type]
        else:
            self.flat.addcmul_(self.noise.normal_(generator=noise.generator), self.scale)
        self.flat.div_(self.step.divisor)
        self.update()

    def _scale(self) -> Tensor | None:
        """Return the noise std of every coordinate where parameters differ in it."""
        stds = self.step.noise.std
        if not isinstance(stds, tuple):
            return None
        return torch.cat([torch.full_like(p, std).flatten() for p, std in zip(self.parameters, stds, strict=True)])

    def _numbers(self) -> tuple[object, ...]:
        """Return the numbers that a captured program holds as constants."""
        step = self.step
        rates = (group["lr"] for group in step.optimizer.param_groups)
        terms = ((term.clip_norms, term.draws.sampler) for term in step.terms)
        return (step.noise.std, step.divisor, operand_eps(self.flat), *rates, *terms)
