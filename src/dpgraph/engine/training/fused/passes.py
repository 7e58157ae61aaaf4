"""Activations and passes over rows: compiled loops that read many numbers once, array operations for few.

At 10,000 roots every operation but the products of matrices waits for memory, so that one pass that does three things
takes about as long as one of the three. The numbers' type and count decide which way is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.compiled import WORTH
from dpgraph.engine.models.dense import ACTIVATIONS

LOOPS = ContextVar("LOOPS", default=True)  # False while calls are recorded, of which loops are none
TYPES = {torch.float32: "f4", torch.float64: "f8"}  # of compiled loops


@dataclass(frozen=True)
class Activation:
    """An elementwise function with a derivative that its output determines."""

    kind: int  # in compiled loops (`row_loops`), where 0 is none
    apply_: Callable[[Tensor], Tensor]  # in place
    pull: Callable[[Tensor, Tensor], Tensor]  # gradients of its outputs, its outputs -> gradients of its inputs, new


def activation_of(function: Callable[[Tensor], Tensor]) -> Activation | None:
    """Return the activation of one of `models.dense.ACTIVATIONS`; None for any other function."""
    for name, known in ACTIVATIONS.items():
        if function is known:
            return _FUSED[name]
    return None


def _relu_pull(gradient: Tensor, output: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(gradient, output, 0)  # type: ignore[no-any-return]


def _tanh_pull(gradient: Tensor, output: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward(gradient, output)  # type: ignore[no-any-return]


def tanh_(rows: Tensor) -> Tensor:
    """Apply tanh in place; on a CPU without a fast one by a compiled loop, or as 2 sigma(2 x) - 1.

    PyTorch's tanh on a CPU is MKL's: as fast as an addition or two on processors of Intel, nine times slower than the
    loop and three times slower than the sigmoid on others. All are exact to a few unit roundoffs of 1. The choice
    depends on the processor, the numbers' type and their count, so that a run that goes on after a stop has the same
    bits.
    """
    if rows.is_cuda or _has_fast_tanh():
        return rows.tanh_()
    if rows.dtype == torch.float32 and in_loops(rows):
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


def affine(layer: nn.Linear, activation: Activation | None, rows: Tensor, out: Tensor | None = None) -> Tensor:
    """Return act(W x + b) of the rows (n, d_in), written to `out` (n, d) if there is one."""
    few = len(rows) * layer.out_features < WORTH
    if activation is None or rows.is_cuda or rows.dtype != torch.float32 or few or not LOOPS.get():
        output = torch.addmm(layer.bias, rows, layer.weight.T, out=out)
        return output if activation is None else activation.apply_(output)
    from dpgraph.engine.training.fused.row_loops import FINISH

    output = torch.mm(rows, layer.weight.T, out=out)
    FINISH(activation.kind, layer.bias.detach().numpy(), output.view(-1).numpy())
    return output


def pulled(activation: Activation, gradients: Tensor, output: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the gradients (n, d) of an activation's input from those of its `output`.

    Also return the (n,) squared lengths of the former where they are known.
    """
    if not in_loops(gradients) or gradients.shape != output.shape:
        return activation.pull(gradients, output.view(gradients.shape)).view(output.shape), None
    from dpgraph.engine.training.fused.row_loops import PULL

    below, squares = torch.empty_like(output), output.new_empty(len(output))
    arrays = (gradients.view(-1).numpy(), output.view(-1).numpy(), below.view(-1).numpy(), squares.numpy())
    PULL[loop_type(output)](activation.kind, output.shape[1], *arrays)
    return below, squares


def weighed(rows: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows (n, d) times their factors (n,), and the sum (d,) of these."""
    if not in_loops(rows):
        weighted = rows * factors.unsqueeze(1)
        return weighted, weighted.sum(0)
    from dpgraph.engine.training.fused.row_loops import WEIGH

    weighted, total = torch.empty_like(rows), np.zeros(rows.shape[1])
    arrays = (factors.contiguous().numpy(), rows.view(-1).numpy(), weighted.view(-1).numpy(), total)
    WEIGH[loop_type(rows)](rows.shape[1], *arrays)
    return weighted, torch.from_numpy(total).to(rows.dtype)


def loop_type(like: Tensor) -> str:
    """Return which of a compiled loop's types takes these numbers."""
    return TYPES[like.dtype]


def in_loops(rows: Tensor) -> bool:
    """Return whether a loop saves more time than its call costs."""
    return LOOPS.get() and not rows.is_cuda and rows.dtype in TYPES and rows.is_contiguous() and rows.numel() >= WORTH
