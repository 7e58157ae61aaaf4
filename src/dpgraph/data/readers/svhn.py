"""SVHN, cropped digits of street numbers in MATLAB files (Netzer et al. 2011)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from dpgraph.core.errors import invalid
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.readers import DAMAGE, existing, malformed
from dpgraph.data.records import TEST, TRAIN, VALIDATION

FILES = {"train_32x32.mat": TRAIN, "test_32x32.mat": TEST}
CLASSES = 10


def read(raw_dir: Path, public: int = 0) -> RawImages:
    """Return the images with the official split; the first `public` test images become those of validation.

    A file has X, (height, width, 3, N) bytes, and y, (N, 1) digits from 1 to 10, where 10 stands for the digit 0.
    """
    parts = [_part(existing(raw_dir / name)) for name in FILES]
    if parts[0][0].shape[1:] != parts[1][0].shape[1:]:
        shapes = (list(images.shape[1:]) for images, _ in reversed(parts))
        raise malformed(raw_dir / "test_32x32.mat", ValueError("images {}, training images have {}".format(*shapes)))
    split = np.repeat(np.array(list(FILES.values()), dtype=np.uint8), [len(labels) for _, labels in parts])
    tested = np.flatnonzero(split == TEST)
    if public and not 0 < public < len(tested):
        raise invalid("public", public, f"a number from 1 to {len(tested) - 1}: some images have to be tested")
    split[tested[:public]] = VALIDATION
    images = np.concatenate([images for images, _ in parts]).astype(np.float32)
    images /= 255
    return RawImages(images, np.concatenate([labels for _, labels in parts]), split)


def _part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return ((N, height, width, 3) bytes, (N,) int64 digits)."""
    try:
        content = loadmat(path, variable_names=("X", "y"))
        images, labels = np.asarray(content["X"]), np.asarray(content["y"]).ravel()
    except (*DAMAGE, MatReadError, NotImplementedError) as error:
        raise malformed(path, error) from None
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        found = f"X of {images.dtype}, {list(images.shape)}"
        raise malformed(path, ValueError(f"{found} instead of bytes, (height, width, 3, N)"))
    if images.shape[3] != len(labels):
        raise malformed(path, ValueError(f"{len(labels)} labels for {images.shape[3]} images"))
    if not np.isin(labels, np.arange(1, CLASSES + 1)).all():
        raise malformed(path, ValueError("labels outside of 1 to 10"))
    return images.transpose(3, 0, 1, 2), labels.astype(np.int64) % CLASSES
