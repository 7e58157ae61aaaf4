"""Optimisers: post-processing of the noisy gradient, so they spend no privacy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from dpgraph.config.cell import Training


def make_optimizer(
    parameters: Iterable[nn.Parameter],
    training: Training,
    fused: bool | None = None,
    weight_decay: float = 0.0,
    capturable: bool = False,
) -> torch.optim.Optimizer:
    """Return SGD (Algorithm 4) or Adam with beta = (0.9, 0.999) (Algorithm 5), with an L2 penalty.

    Adam is the standard one: Algorithm 5 prints sqrt(s^2) where it means sqrt(s), and divides by m only after the
    moments; here both moments see the averaged gradient.

    Args:
        parameters: The trained parameters.
        training: Optimiser, learning rate and momentum.
        fused: Adam passes over a large tensor once instead of ten times, with other roundings.
        weight_decay: The factor of the L2 penalty.
        capturable: Adam is fused and keeps the number of its steps on the parameters' device, so that a captured
            program may update with it.
    """
    shared: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": weight_decay}
    if training.optimizer == "sgd":
        return _eager(torch.optim.SGD)(parameters, momentum=training.momentum, **shared)
    moments: dict[str, Any] = {"betas": (0.9, 0.999), "eps": 1e-8, "fused": True if capturable else fused}
    return _eager(torch.optim.Adam)(parameters, capturable=capturable, **moments, **shared)


@cache
def _eager(kind: type[torch.optim.Optimizer]) -> Any:
    """Return PyTorch's optimiser without the wrappers that load the compiler, 1.4 s in each process."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    plain = {name: getattr(method := getattr(kind, name), "__wrapped__", method) for name in names}
    step = torch.no_grad()(getattr(kind.step, "__wrapped__", kind.step))
    return type(kind.__name__, (kind,), {**plain, "step": step})


@dataclass
class WarmedUpStep:
    """A step whose learning rate rises linearly from 0 over the first `warm_up` steps, then falls linearly to 0 at T.

    As transformers' get_linear_schedule_with_warmup has it: the first of t = 0..T - 1 has rate 0 if `warm_up` > 0. The
    rate is a public function of t.
    """

    step: Callable[[], int]
    optimizer: torch.optim.Optimizer
    learning_rate: float
    steps: int
    warm_up: int
    done: int = 0

    def start_at(self, step: int) -> None:
        self.done = step

    def share(self, done: int) -> float:
        """Return the share of the learning rate that the step after `done` ones has."""
        if done < self.warm_up:
            return done / self.warm_up
        return max(0.0, (self.steps - done) / max(1, self.steps - self.warm_up))

    def __call__(self) -> int:
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * self.share(self.done)
        self.done += 1
        return self.step()


def apply_gradient(optimizer: torch.optim.Optimizer, sums: Sequence[Tensor], divisor: float) -> None:
    """Update the parameters once with sums / divisor.

    `divisor` is public: m, or q N under Poisson sampling, never the size of the batch that was drawn.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter, total in zip(parameters, sums, strict=True):
        parameter.grad = total / divisor
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
