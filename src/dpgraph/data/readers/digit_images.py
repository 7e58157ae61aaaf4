"""Scikit-learn's handwritten digits as images of 8 x 8 pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpgraph.data.raw_graph import RawImages
from dpgraph.data.records import TEST, TRAIN, VALIDATION

SEVEN = np.array([TRAIN] * 4 + [VALIDATION] + [TEST] * 2, dtype=np.uint8)  # parts of seven images in a row


def read(raw_dir: Path) -> RawImages:
    """Return the images of scikit-learn, which need no files.

    scikit-learn has no split. Here an image's place in the file alone decides its part, as official splits do.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels, labels = (digits.images / 16).astype(np.float32)[..., None], digits.target.astype(np.int64)
    return RawImages(pixels, labels, np.resize(SEVEN, len(labels)))
