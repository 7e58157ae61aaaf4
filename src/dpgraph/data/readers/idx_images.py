"""Square grey images in idx files, the format of MNIST and Fashion-MNIST."""

from __future__ import annotations

import math
from pathlib import Path

from dpgraph.data.raw_images import RawImages
from dpgraph.data.readers import idx
from dpgraph.errors import UserError


def read(raw_dir: Path, sha256: tuple[str, ...] = ()) -> RawImages:
    """As `idx.read`, with its official split; raises UserError for images that are not square."""
    raw = idx.read(raw_dir, sha256)
    if raw.features is None or (side := math.isqrt(raw.features.shape[1])) ** 2 != raw.features.shape[1]:
        raise UserError(f"{raw_dir}: expected square images")
    return RawImages(raw.features.reshape(-1, side, side, 1), raw.labels, raw.split)
