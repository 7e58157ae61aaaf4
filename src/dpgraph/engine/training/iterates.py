"""The iterate that a run releases: the best one on validation nodes (early stopping), or the mean of the last ones.

Early stopping reads validation labels at every look, which no epsilon of this package covers: a private run that stops
so is a paper's own mechanism, and states no proved epsilon. The mean is a function of released iterates, so it costs
no privacy (Polyak averaging).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpgraph.engine.training.steps import ScheduledStep, Step

Scores = tuple[float, float]  # the higher, the better; compared in this order


class WatchedNetwork(nn.Module):
    """A network, its best parameters so far, and where its run stopped; a checkpoint keeps all of it."""

    done: Tensor
    best_at: Tensor
    stopped_at: Tensor
    best: Tensor

    def __init__(self, network: nn.Module, kept: nn.Module | None) -> None:
        """Keep the best parameters in `kept`, another network of the same shape; None: the last ones count."""
        super().__init__()
        self.network, self.kept = network, None if kept is None else kept.requires_grad_(False)
        for name in ("done", "best_at", "stopped_at"):  # steps; 0: none yet. On the host, to avoid waits for the device
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))
        self.register_buffer("best", torch.full((2,), -torch.inf, dtype=torch.float64))

    @property
    def released(self) -> Any:
        """The best network, if it is kept; the current one where no look was better than none."""
        return self.kept if self.kept is not None and int(self.best_at) else self.network

    def notes(self) -> dict[str, int]:
        """Return the step of the kept parameters, and that after which the run stopped, if it did."""
        stopped = {"stopped_at": int(self.stopped_at)} if int(self.stopped_at) else {}
        return stopped if self.kept is None else {"best_at": int(self.best_at), **stopped}

    def look(self, scores: Scores, patience: int, every: int) -> None:
        """Compare with the best look; `patience` looks without a better one, one every `every` steps, end the run."""
        done = int(self.done)
        if scores > tuple(self.best.tolist()):
            self.best.copy_(torch.tensor(scores, dtype=torch.float64))
            self.best_at.fill_(done)
            if self.kept is not None:
                self.kept.load_state_dict(self.network.state_dict())
        elif done - int(self.best_at) >= patience * every:
            self.stopped_at.fill_(done)


@dataclass(frozen=True)
class StoppingStep:
    """The wrapped `step` until the run has stopped, then no step; looks after every `every` steps, an epoch.

    `scores` are those of the current parameters on validation nodes, at least one of which has a label.
    """

    step: Step
    watched: WatchedNetwork
    scores: Callable[[], Scores]
    patience: int
    every: int

    def start_at(self, step: int) -> None:
        if isinstance(self.step, ScheduledStep):
            self.step.start_at(step)

    def __call__(self) -> int:
        watched = self.watched
        if int(watched.stopped_at):
            return 0
        read = self.step()
        watched.done += 1
        if int(watched.done) % self.every == 0:
            watched.look(self.scores(), self.patience, self.every)
        return read


def validation_scores(logits: Tensor, labels: Tensor, by: str) -> Scores:
    """Return scores from logits (n, classes) and labels (n,): less loss is better.

    By accuracy, more accuracy is better, and among equals less loss.
    """
    loss = -float(nn.functional.cross_entropy(logits.double(), labels))
    if by == "loss":
        return loss, 0.0
    return float((logits.argmax(1) == labels).double().mean()), loss


class AveragedNetwork(nn.Module):
    """A network, and the mean of its parameters after each step beyond `skipped`; a checkpoint keeps both."""

    done: Tensor

    def __init__(self, network: nn.Module, kept: nn.Module, skipped: int) -> None:
        """Keep the mean in `kept`, another network of the same shape."""
        super().__init__()
        self.network, self.kept, self.skipped = network, kept.requires_grad_(False), skipped
        self.register_buffer("done", torch.zeros((), dtype=torch.int64))

    @property
    def released(self) -> Any:
        """The mean; the current network as long as no iterate counts."""
        return self.kept if int(self.done) > self.skipped else self.network

    def notes(self) -> dict[str, int]:
        return {"averaged_iterates": max(int(self.done) - self.skipped, 0)}

    @torch.no_grad()
    def look(self) -> None:
        """Add the iterate after a step to the mean."""
        self.done.add_(1)
        count = int(self.done) - self.skipped
        if count > 0:
            for mean, value in zip(self.kept.parameters(), self.network.parameters(), strict=True):
                mean.add_((value - mean) / count if count > 1 else value - mean)


@dataclass(frozen=True)
class AveragingStep:
    """The wrapped `step`, after which the iterate enters the mean."""

    step: Step
    averaged: AveragedNetwork

    def start_at(self, step: int) -> None:
        if isinstance(self.step, ScheduledStep):
            self.step.start_at(step)

    def __call__(self) -> int:
        read = self.step()
        self.averaged.look()
        return read
