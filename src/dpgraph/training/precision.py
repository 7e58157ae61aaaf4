"""How exactly a device multiplies matrices of float32 numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

COARSER = {"tf32": 2.0**-10, "bf16": 2.0**-7}  # spacing of 1 and the next number in the format of rounded operands


def product_eps(like: Tensor) -> float:
    """Relative spacing of the numbers that products of matrices like this one are made of.

    PyTorch may round their operands, as the cell, the environment or a caller has set it; sums and other operations
    keep the tensor's own type.
    """
    eps = torch.finfo(like.dtype).eps
    if like.dtype != torch.float32:
        return eps
    backend = torch.backends.cuda.matmul if like.is_cuda else torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    return COARSER.get(backend.fp32_precision, eps)


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Products of float32 matrices on GPUs in `float32` or `tf32`; on a CPU they are what they were."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = {"float32": "ieee", "tf32": "tf32"}[precision]
    try:
        yield
    finally:
        matmul.fp32_precision = before
