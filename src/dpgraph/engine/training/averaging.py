"""The mean of a run's last iterates: a function of what was released, so it costs nothing (Polyak averaging)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpgraph.engine.training.steps import ScheduledStep, Step


class Averaged(nn.Module):
    """A network, and the mean of its parameters after each step beyond `skipped`; a checkpoint keeps both."""

    done: Tensor

    def __init__(self, network: nn.Module, kept: nn.Module, skipped: int) -> None:
        """`kept`: another network of the same shape, whose parameters are overwritten."""
        super().__init__()
        self.network, self.kept, self.skipped = network, kept.requires_grad_(False), skipped
        self.register_buffer("done", torch.zeros((), dtype=torch.int64))

    @property
    def released(self) -> Any:
        """The mean; the current network as long as none of its iterates counts."""
        return self.kept if int(self.done) > self.skipped else self.network

    def notes(self) -> dict[str, int]:
        return {"averaged_iterates": max(int(self.done) - self.skipped, 0)}

    @torch.no_grad()
    def look(self) -> None:
        """After a step."""
        self.done.add_(1)
        count = int(self.done) - self.skipped
        if count > 0:
            for mean, value in zip(self.kept.parameters(), self.network.parameters(), strict=True):
                mean.add_((value - mean) / count if count > 1 else value - mean)


@dataclass(frozen=True)
class AveragingStep:
    """`step`, after which the iterate enters the mean."""

    step: Step
    averaged: Averaged

    def start_at(self, step: int) -> None:
        if isinstance(self.step, ScheduledStep):
            self.step.start_at(step)

    def __call__(self) -> int:
        read = self.step()
        self.averaged.look()
        return read
