"""What a reader of images returns: the content of the files, before the split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpgraph.core.errors import UserError


@dataclass(frozen=True)
class RawImages:
    """N images with labels."""

    images: np.ndarray  # (N, height, width, channels) float32 in [0, 1]
    labels: np.ndarray  # (N,) int64; -1: none
    split: np.ndarray | None = None  # (N,) uint8, the official split; None: there is none
    data_dependent: tuple[str, ...] = ()  # what the reader made of all records together, see `records.data_dependent`

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or not self.images.size:
            raise UserError(f"images {list(self.images.shape)}: expected (N, height, width, channels), none of them 0")
        for name in ("labels", "split"):
            value = getattr(self, name)
            if value is not None and value.shape != (len(self.images),):
                raise UserError(f"{name} of {len(value)} images: expected {len(self.images)}")
