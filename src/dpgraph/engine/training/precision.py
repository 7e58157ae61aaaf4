"""The precision with which a device multiplies matrices of float32 numbers, and how much norms are enlarged for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

COARSER = {"tf32": 2.0**-10, "bf16": 2.0**-7}  # spacing of 1 and the next number in the format of rounded operands
ROUNDING = 16.0  # spacings at 1 of the numbers' own type; squared norms from `inner_products` are off by at most 2
OPERANDS = 3.25  # unit roundoffs of rounded operands: Theorem 2 of docs/privacy/shared.md
UNDERFLOW = 2.0**-60  # of the longest row's squared length, added to scales: Theorem 2, too


def operand_eps(like: Tensor) -> float:
    """Return the largest relative error of operands in products of matrices like this one; 0 where they are not
    rounded.

    PyTorch may round them, as the cell, the environment or a caller has set it, to the nearest number or towards 0.
    Sums and other operations keep the tensor's own type. A processor that cannot do what is set is more exact.
    """
    if like.dtype != torch.float32:
        return 0.0
    backend = torch.backends.cuda.matmul if like.is_cuda else torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    return COARSER.get(backend.fp32_precision, 0.0)


def with_underflow(scale: Tensor, inputs: Tensor, gradients: Tensor, bias: float = 0.0) -> Tensor:
    """Return scales s^2 (...), enlarged for what underflow takes from norms; rows have these squared lengths (..., w).

    The longest row alone decides, so that padding with a root's own rows changes nothing. With a bias inputs are at
    least 1 long, and only gradients underflow.
    """
    longest = inputs if bias else torch.maximum(inputs, gradients)
    return scale.add(longest.squeeze(-1) if longest.shape[-1] == 1 else longest.amax(-1), alpha=UNDERFLOW)


def rounding_scale(inputs: Tensor, gradients: Tensor, bias: float) -> Tensor:
    """Return the scales s^2 (...) of rows of these squared lengths (..., w), with what underflow takes."""
    return with_underflow((inputs * gradients).sqrt_().sum(-1).square_(), inputs, gradients, bias)


def rank_one(inputs: Tensor, gradients: Tensor, bias: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return squared norms and scales (b,) of roots of one row, whose squared lengths are (b, 1)."""
    square = (inputs * gradients).squeeze(1)
    return square, with_underflow(square, inputs, gradients, bias)


def enlarged_norms(squared: Tensor, scale: Tensor) -> Tensor:
    """Return norms that a contribution does not exceed, whatever rounding did to squared norms and contribution.

    `scale` is s^2 of `training.ghost.RootGradients`, of the same shape. The result may be infinite or not a number. The
    enlargement for rounded operands is Theorem 2 of docs/privacy/shared.md.
    """
    sums = squared + ROUNDING * torch.finfo(squared.dtype).eps * scale
    slack = OPERANDS * operand_eps(squared)
    return sums.sqrt_().add_(scale.sqrt(), alpha=slack) if slack else sums.sqrt_()


@contextmanager
def products_in(precision: Literal["float32", "tf32", "bf16"]) -> Iterator[None]:
    """Round the operands of products of float32 matrices to that format while the context is open.

    `tf32` is for GPUs and changes no product on a CPU. `bf16` is for CPUs with instructions for it, and changes no
    product on others; on a GPU it is `tf32`, whose operands are more exact.
    """
    settings = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    before = [setting.fp32_precision for setting in settings]
    settings[0].fp32_precision = "ieee" if precision == "float32" else "tf32"
    settings[1].fp32_precision = "bf16" if precision == "bf16" else before[1]
    try:
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            setting.fp32_precision = value
