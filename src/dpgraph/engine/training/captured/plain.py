"""The programs of steps without privacy: on ego trees, and on any loss of a batch of fixed size."""

from __future__ import annotations

import torch

from dpgraph.engine.training.captured.program import AHEAD, CapturedProgram, HostBatches, PositionSource, TreeSource
from dpgraph.engine.training.captured.step import TreeRecords
from dpgraph.engine.training.clipping import gradient_sum, root_cross_entropy
from dpgraph.engine.training.steps import BatchStep, PlainStep


class CapturedTrees(CapturedProgram):
    """The program of a step without privacy on ego trees: the same slots, without norms and noise."""

    def __init__(self, step: PlainStep, ahead_steps: int = AHEAD) -> None:
        """Lay out the trees in slots."""
        self.step, dropped = step, step.network.drop.generator
        drawn = HostBatches(step.sampler, step.batches)
        self.source = TreeSource(step.trees, drawn, step.labels, step.features.dtype)
        super().__init__(step.optimizer, [self.source], [] if dropped is None else [dropped], ahead_steps)
        self.records, self.sums_alone = TreeRecords(step.features), dropped is None and step.fused

    def skips(self, size: int) -> bool:
        return not size

    def program(self) -> None:
        self.summed()
        with torch.no_grad():
            self.update()

    def sum_slots(self) -> None:
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
            self.write(torch.autograd.grad(losses.sum(), self.parameters))
        with torch.no_grad():
            self.flat.div_(batch.finite.sum())

    def run_without_slots(self, step: int) -> None:
        own, positions = self.step, self.source.positions(step)
        if own.fused:
            self.write(gradient_sum(own.network, own.trees, positions, own.features, own.labels))
        else:
            self.flat.zero_()
            for loss in own.losses(positions):
                for total, part in zip(self.sums.values(), torch.autograd.grad(loss, self.parameters), strict=True):
                    total += part
        self.flat.div_(len(positions))
        self.update()


class CapturedLoss(CapturedProgram):
    """The program of a step against a loss of a batch of fixed size, without privacy."""

    def __init__(self, step: BatchStep, ahead_steps: int = AHEAD) -> None:
        """Keep the step, whose batches have a fixed size."""
        self.step = step
        size: int = step.sampler.size  # type: ignore[attr-defined]
        source = PositionSource(HostBatches(step.sampler, step.batches), size, step.device)
        super().__init__(step.optimizer, [source], step.masks, ahead_steps)

    def program(self) -> None:
        self.step.move(self.sources[0].row)
