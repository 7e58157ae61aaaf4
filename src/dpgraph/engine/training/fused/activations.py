"""Activations in place, and the gradients of what they read from what they gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from dpgraph.core.compiled import WORTH
from dpgraph.engine.models.dense import ACTIVATIONS


@dataclass(frozen=True)
class Activation:
    """Elementwise, with a derivative that its output determines."""

    kind: int  # in compiled loops (`row_loops`), where 0 is none
    apply_: Callable[[Tensor], Tensor]  # in place
    pull: Callable[[Tensor, Tensor], Tensor]  # gradients of its outputs, its outputs -> gradients of its inputs, new


def activation_of(function: Callable[[Tensor], Tensor]) -> Activation | None:
    """That of one of `models.dense.ACTIVATIONS`; None for any other function."""
    for name, known in ACTIVATIONS.items():
        if function is known:
            return _FUSED[name]
    return None


def _relu_pull(gradient: Tensor, output: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(gradient, output, 0)  # type: ignore[no-any-return]


def _tanh_pull(gradient: Tensor, output: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward(gradient, output)  # type: ignore[no-any-return]


def tanh_(rows: Tensor) -> Tensor:
    """tanh in place; on a CPU whose vector library has no fast one by a compiled loop, or as 2 sigma(2 x) - 1.

    PyTorch's tanh on a CPU is MKL's: as fast as an addition or two on processors of Intel, nine times slower than the
    loop and three times slower than the sigmoid on others. All are exact to a few unit roundoffs of 1. The choice
    depends on the processor, the numbers' type and how many there are, so that a run that goes on after a stop has the
    same bits.
    """
    if rows.is_cuda or _has_fast_tanh():
        return rows.tanh_()
    if rows.dtype == torch.float32 and rows.numel() >= WORTH and rows.is_contiguous():
        from dpgraph.engine.training.fused.row_loops import FINISH

        FINISH(1, rows.new_zeros(rows.shape[-1]).numpy(), rows.view(-1).numpy())
        return rows
    return rows.mul_(2).sigmoid_().mul_(2).sub_(1)


@cache
def _has_fast_tanh() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True


_FUSED = {"relu": Activation(2, torch.relu_, _relu_pull), "tanh": Activation(1, tanh_, _tanh_pull)}
