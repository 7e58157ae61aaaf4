"""Scikit-learn's handwritten digits as images of 8 x 8 pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpgraph.data.raw_graph import RawImages


def read(raw_dir: Path) -> RawImages:
    """Return the images of scikit-learn, which need no files. There is no official split."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return RawImages((digits.images / 16).astype(np.float32)[..., None], digits.target.astype(np.int64))
