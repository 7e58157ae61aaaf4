"""Square grey images in idx files, the format of MNIST and Fashion-MNIST."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dpgraph.core.errors import UserError, invalid
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.readers import idx
from dpgraph.data.records import TEST, VALIDATION


def read(raw_dir: Path, sha256: tuple[str, ...] = (), public: int = 0) -> RawImages:
    """Read images by `idx.read`, with the official split; the first `public` test images become those of validation.

    These are the public images of PATE (Zhang, section 3.4.1). Raises UserError for images that are not square.
    """
    raw = idx.read(raw_dir, sha256)
    if raw.features is None or (side := math.isqrt(raw.features.shape[1])) ** 2 != raw.features.shape[1]:
        raise UserError(f"{raw_dir}: expected square images")
    split = raw.split
    if public:
        tested = np.flatnonzero(split == TEST) if split is not None else np.zeros(0, dtype=np.int64)
        if split is None or not 0 < public < len(tested):
            raise invalid("public", public, f"a number from 1 to {len(tested) - 1}: some images have to be tested")
        split = split.copy()
        split[tested[:public]] = VALIDATION
    return RawImages(raw.features.reshape(-1, side, side, 1), raw.labels, split)
