"""The program of a step over rows of weights: all rows are computed, those outside of the batch with share 0."""

from __future__ import annotations

import torch
from torch import Tensor

from dpgraph.engine.sampling.slots import DrawnSlots
from dpgraph.engine.training.captured.program import AHEAD, CapturedProgram, DrawnBatches
from dpgraph.engine.training.closed_rows import RowStep


class MaskSource:
    """The roots of a batch as a mask over all of them; `padding` more places are in none."""

    def __init__(self, batches: DrawnBatches, padding: int, device: torch.device) -> None:
        self.batches, self.padding = batches, padding
        self.row = torch.zeros(batches.sampler.num_roots + padding, dtype=torch.bool, device=device)

    def ahead(self, first: int, steps: int) -> DrawnSlots:
        """Return the batches of `steps` steps, each of which fits."""
        masks = torch.nn.functional.pad(self.batches.masks(first, steps, self.row), (0, self.padding))
        return DrawnSlots(masks, torch.zeros(steps, dtype=torch.bool, device=masks.device), masks.sum(1))


class CapturedRows(CapturedProgram):
    """The program of a `RowStep`, private or not."""

    def __init__(self, step: RowStep, batches: DrawnBatches, ahead_steps: int = AHEAD) -> None:
        """Lay out all rows; a private step draws its batches on the device, others those of the step."""
        self.step, self.all = step, step.every_root()
        padding = self.all.num_roots - batches.sampler.num_roots
        self.source = MaskSource(batches, padding, step.gradient.device)
        private = step.privatizer
        super().__init__(
            step.optimizer, [self.source], [] if private is None else [private.noise.generator], ahead_steps
        )
        self._baked = self._numbers()

    def check(self) -> None:
        if self._baked != self._numbers():
            raise TypeError("clip norm, noise or divisor changed after the step was captured")

    def count(self, step: int) -> None:
        super().count(step)
        if self.step.privatizer is not None:
            self.step.draws.count += 1

    def count_replayed(self) -> None:
        noise = self.step.privatizer.noise if self.step.privatizer is not None else None
        if noise is not None:
            noise.draws += 1
            noise.numbers += self.step.network.size

    @torch.no_grad()
    def program(self) -> None:
        share: Tensor = self.source.row.to(self.step.gradient.dtype)
        private = self.step.privatizer
        self.step.write(self.all, share / (share.sum() if private is None else private.divisor))
        self.step.update()

    def _numbers(self) -> tuple[object, ...]:
        """Return the numbers that a captured program holds as constants."""
        private = self.step.privatizer
        held = () if private is None else (private.clip_norm, private.noise.std, private.divisor)
        return (*held, self.step.draws.sampler)
