"""Dropout with masks from a named generator (Srivastava et al., 2014)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """In training each entry becomes 0 with probability `rate`, the rest is divided by 1 - rate; otherwise nothing.

    Masks do not depend on the data, and those of different rows are independent: given the masks, a root's gradient
    still depends on its own rows alone, so clipping bounds what it contributes, as without dropout. `generator` is on
    the rows' device; without one (inference only) training mode raises TypeError.
    """

    def __init__(self, rate: float, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.rate, self.generator = rate, generator

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return rows
        if self.generator is None:
            raise TypeError("dropout in training needs a generator")
        # several times faster than bernoulli_ on a CPU
        kept = torch.empty_like(rows).uniform_(generator=self.generator) >= self.rate
        return rows * kept.to(rows.dtype).div_(1 - self.rate)
