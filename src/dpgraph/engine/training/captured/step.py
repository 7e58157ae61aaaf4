"""The programs that stand for private steps, for plain ones on ego trees, and for plain ones on any loss.

**The accounted step is the one that runs.** The program of a private step reads samplers, clip norms, noise and divisor
from the objects of the `PrivateStep` that it stands for. It counts its draws and its noise in them, so that
`preparation` compares them with the mechanism as for every step. Numbers that a captured program holds are compared
with those objects at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dpgraph.core.randomness import Key
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.batches import FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.engine.sampling.ego import EgoTrees
from dpgraph.engine.training.captured.program import (
    AHEAD,
    CapturedProgram,
    DeviceBatches,
    HostBatches,
    PositionSource,
    TreeSource,
    classes_of,
)
from dpgraph.engine.training.clipping import (
    CLOSED_FORMS,
    clip_columns,
    clip_factors,
    clipped_gradient_sum,
    gradient_sum,
    root_cross_entropy,
    root_losses,
)
from dpgraph.engine.training.fused.layers import SlotRecords
from dpgraph.engine.training.fused.network import Parts, has_closed_form
from dpgraph.engine.training.steps import BatchStep, PlainStep, PrivateStep, Step

DEVICES = {"cuda"}  # kinds of devices on which methods train so; on others the step that a captured one stands for
MOST_ROWS = 1 << 22  # of a batch in slots: lists so long that padding them would cost more than a step without it
MOST_NUMBERS = 1 << 31  # of the records of such rows


class TreeRecords:
    """The records (N, F) of all nodes, which do not change, as trees in slots read them."""

    def __init__(self, features: Tensor) -> None:
        self.values, self.finite = features, bool(torch.isfinite(features).all())

    def parts(self, network: Network, source: TreeSource, losses: Any = root_losses) -> Parts:
        """Return gradients and losses of the trees in the slots."""
        batch = source.batch
        read = SlotRecords(self.values.index_select(0, batch.nodes), batch.sizes[-1], self.finite)
        return CLOSED_FORMS[losses](network, batch, read, source.slots.labels)


class CapturedStep(CapturedProgram):
    """The program of a private step."""

    def __init__(self, step: PrivateStep, key: Key, ahead_steps: int = AHEAD) -> None:
        """Lay out the trees of every term in slots. Raise TypeError for a step that cannot be captured."""
        refuse_uncaptured(step)
        self.step, features = step, step.features
        self.slots = [
            TreeSource(term.trees, DeviceBatches(term.draws.sampler, key, index), step.labels, features.dtype)
            for index, term in enumerate(step.terms)
        ]
        super().__init__(step.optimizer, self.slots, [step.noise.generator], ahead_steps)
        columns = [clip_columns(step.network, term.clip_norms) for term in step.terms]
        self.columns = [column for column, _ in columns]
        self.limits = [torch.tensor(limits, dtype=features.dtype, device=self.device) for _, limits in columns]
        self.records = TreeRecords(features)
        self.noise = torch.empty_like(self.flat)
        self.scale = self._scale()
        self._baked = self._numbers()

    def check(self) -> None:
        if self._baked != self._numbers():
            raise TypeError("clip norms, noise or divisor changed after the step was captured")

    def count(self, step: int) -> None:
        super().count(step)
        for term in self.step.terms:
            term.draws.count += 1
        self.step.noise.draws += 1
        self.step.noise.numbers += self.flat.numel()

    def program(self) -> None:
        self.sum_slots()
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
        self.noise.normal_(generator=noise.generator)
        if self.scale is None:
            self.flat.add_(self.noise, alpha=float(noise.std))  # type: ignore[arg-type]
        else:
            self.flat.addcmul_(self.noise, self.scale)
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
        return (step.noise.std, step.divisor, *((t.clip_norms, t.draws.sampler) for t in step.terms))


class CapturedTrees(CapturedProgram):
    """The program of a step without privacy on ego trees: the same slots, without norms and noise."""

    def __init__(self, step: PlainStep, ahead_steps: int = AHEAD) -> None:
        """Lay out the trees in slots. Raise TypeError for a step that cannot be captured."""
        refuse_uncaptured(step)
        self.step, dropped = step, step.network.drop.generator
        drawn = HostBatches(step.sampler, step.batches)
        self.source = TreeSource(step.trees, drawn, step.labels, step.features.dtype)
        super().__init__(step.optimizer, [self.source], [] if dropped is None else [dropped], ahead_steps)
        self.records = TreeRecords(step.features)

    def skips(self, size: int) -> bool:
        return not size

    def program(self) -> None:
        batch, step = self.source.batch, self.step
        if step.fused:
            with torch.no_grad():
                self.flat.zero_()
                by_layer, _ = self.records.parts(step.network, self.source)
                for gradients in by_layer.values():
                    gradients.add_weighted(self.sums, None, batch.finite)
        else:
            logits = step.forward(step.network, batch, step.features)  # type: ignore[arg-type]
            losses = root_cross_entropy(logits, self.source.slots.labels.index_select(0, batch.roots))
            self._write(torch.autograd.grad(losses.sum(), self.parameters))
        with torch.no_grad():
            self.flat.div_(batch.finite.sum())
            self.update()

    def run_without_slots(self, step: int) -> None:
        own, positions = self.step, self.source.positions(step)
        if own.fused:
            self._write(gradient_sum(own.network, own.trees, positions, own.features, own.labels))
        else:
            self.flat.zero_()
            for loss in own.losses(positions):
                for total, part in zip(self.sums.values(), torch.autograd.grad(loss, self.parameters), strict=True):
                    total += part
        self.flat.div_(len(positions))
        self.update()

    def _write(self, gradients: Any) -> None:
        for total, part in zip(self.sums.values(), gradients, strict=True):
            total.copy_(part)


class CapturedLoss(CapturedProgram):
    """The program of a step against a loss of a batch of fixed size, without privacy."""

    def __init__(self, step: BatchStep, ahead_steps: int = AHEAD) -> None:
        """Keep the step. Raise TypeError for one that cannot be captured."""
        refuse_uncaptured(step)
        self.step = step
        size: int = step.sampler.size  # type: ignore[attr-defined]
        source = PositionSource(HostBatches(step.sampler, step.batches), size, step.device)
        super().__init__(step.optimizer, [source], step.masks, ahead_steps)

    def program(self) -> None:
        self.step.move(self.sources[0].row)


def captured(step: Step, key: Callable[[], Key] | None = None) -> CapturedProgram:
    """Return the program that stands for a step; a private one draws its batches with the key.

    Raises:
        TypeError: The step cannot be captured.
    """
    refuse_uncaptured(step)
    if isinstance(step, PrivateStep):
        if key is None:
            raise TypeError("a private step needs the key of its batches")
        return CapturedStep(step, key())
    return CapturedTrees(step) if isinstance(step, PlainStep) else CapturedLoss(step)  # type: ignore[arg-type]


def refuse_uncaptured(step: Step) -> None:
    """Raise TypeError for a step that cannot be captured."""
    if reason := why_not_captured(step):
        raise TypeError(f"the step cannot be captured: {reason}")


def why_not_captured(step: Any) -> str | None:
    """Return why no program can stand for a step, or None."""
    if not isinstance(step, PrivateStep | PlainStep | BatchStep):
        return "the host takes part in the step"
    if any(group.get("capturable") is False for group in step.optimizer.param_groups):
        return "the optimiser counts its steps on the host"
    if isinstance(step, BatchStep):
        return None if isinstance(step.sampler, FixedSizeSampler) else "the size of a batch is not known before"
    if isinstance(step, PlainStep):
        return _too_long(step.trees, step.sampler, step.features)
    if step.engine is not None:
        return "another library forms the gradients"
    if not has_closed_form(step.network):
        return "the network has no closed form"
    for term in step.terms:
        if term.losses not in CLOSED_FORMS:
            return "losses of the method's own"
        if reason := _too_long(term.trees, term.draws.sampler, step.features):
            return reason
    return None


def _too_long(trees: EgoTrees, sampler: Sampler, features: Tensor) -> str | None:
    """Return why batches of trees do not go into slots, or None."""
    if not isinstance(sampler, PoissonSampler | FixedSizeSampler):
        return "batches are neither Poisson nor of a fixed size"
    rows = classes_of(trees, sampler).rows
    if rows > MOST_ROWS or rows * features.shape[1] > MOST_NUMBERS:
        return f"{rows} rows of padded trees"
    return None
