"""Passes over rows: of many numbers by compiled loops that read each once, of few by array operations.

At 10,000 roots what is not a product of matrices waits for memory, so that one pass that does three things takes about
as long as one of the three. Which way is taken depends on the numbers' type and how many there are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpgraph.core.compiled import WORTH
from dpgraph.engine.training.fused.activations import Activation

TYPES = {torch.float32: "f4", torch.float64: "f8"}  # of compiled loops


def affine(layer: nn.Linear, activation: Activation | None, rows: Tensor, out: Tensor | None = None) -> Tensor:
    """act(W x + b) for the rows (n, d_in), written to `out` (n, d) if there is one."""
    if activation is None or rows.is_cuda or rows.dtype != torch.float32 or len(rows) * layer.out_features < WORTH:
        output = torch.addmm(layer.bias, rows, layer.weight.T, out=out)
        return output if activation is None else activation.apply_(output)
    from dpgraph.engine.training.fused.row_loops import FINISH

    output = torch.mm(rows, layer.weight.T, out=out)
    FINISH(activation.kind, layer.bias.detach().numpy(), output.view(-1).numpy())
    return output


def pulled(activation: Activation, gradients: Tensor, output: Tensor) -> tuple[Tensor, Tensor | None]:
    """Gradients (n, d) of what an activation read from those of its `output`; (n,) squared lengths where known."""
    if not in_loops(gradients) or gradients.shape != output.shape:
        return activation.pull(gradients, output.view(gradients.shape)).view(output.shape), None
    from dpgraph.engine.training.fused.row_loops import PULL

    below, squares = torch.empty_like(output), output.new_empty(len(output))
    arrays = (gradients.view(-1).numpy(), output.view(-1).numpy(), below.view(-1).numpy(), squares.numpy())
    PULL[loop_type(output)](activation.kind, output.shape[1], *arrays)
    return below, squares


def weighed(rows: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """(n, d) rows times their factors (n,); (d,) the sum of these."""
    if not in_loops(rows):
        weighted = rows * factors.unsqueeze(1)
        return weighted, weighted.sum(0)
    from dpgraph.engine.training.fused.row_loops import WEIGH

    weighted, total = torch.empty_like(rows), rows.new_zeros(rows.shape[1])
    arrays = (factors.contiguous().numpy(), rows.view(-1).numpy(), weighted.view(-1).numpy(), total.numpy())
    WEIGH[loop_type(rows)](rows.shape[1], *arrays)
    return weighted, total


def loop_type(like: Tensor) -> str:
    """Which of a compiled loop's types takes these numbers."""
    return TYPES[like.dtype]


def in_loops(rows: Tensor) -> bool:
    """Whether loops are worth their call."""
    return not rows.is_cuda and rows.dtype in TYPES and rows.is_contiguous() and rows.numel() >= WORTH
