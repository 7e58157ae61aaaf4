"""Reconstructions of classes, and how far they are from the training images (Zhang, section 4.3, MIA distance)."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.core.errors import UserError
from dpgraph.core.files import atomic_path
from dpgraph.problems.images.value import Images

L2, SSIM, BLANK = "inversion_l2/train", "inversion_ssim/train", "inversion_blank_l2/train"
RECOGNISED = "inversion_recognised/train"
BY_CLASS = "class_"  # before a metric: of each class, as class_accuracy/test
SMALLEST_WINDOW, USUAL_WINDOW = 3, 7  # pixels of SSIM's window


@dataclass(frozen=True)
class Inversion:
    """Of one seed: made of the released parameters alone."""

    images: np.ndarray  # (classes, F) float32 in [0, 1]

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary:
            np.savez(temporary, images=self.images)

    @classmethod
    def load(cls, path: Path) -> Inversion:
        """Raises UserError where the file is none."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return cls(arrays["images"])
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile):
            raise UserError(f"{path}: damaged; delete result.json next to it and train the cell again") from None


def inversion_metrics(value: Images, found: Inversion, step: int) -> tuple[Metric, ...]:
    """Means over classes of the MIA distances, and under `class_` those of each class.

    The least Euclidean distance, and the least 1 - SSIM, of a reconstruction to a training image of the class;
    `inversion_blank_l2` is the distance of a black image, which knows nothing of any class. A reconstruction counts as
    `inversion_recognised` where the training image that is nearest to it by L2, of all classes, is of its own. All
    compare with private images: numbers for who has these, and no part of a release. A class without training images
    has none.
    """
    train, labels = value.train_nodes, np.asarray(value.labels)
    own = {number: train[labels[train] == number] for number in range(value.num_classes)}
    pixels = {number: np.asarray(value.features)[nodes] for number, nodes in own.items() if len(nodes)}
    squares = {number: nearest_squares(found.images, others) for number, others in pixels.items()}
    of_class: dict[str, dict[int, float]] = {L2: {}, SSIM: {}, BLANK: {}, RECOGNISED: {}}
    for number, images in pixels.items():
        image = found.images[number]
        of_class[L2][number] = least_l2(image, images)
        of_class[SSIM][number] = least_ssim(image, images, value.shape)
        of_class[BLANK][number] = least_l2(np.zeros_like(image), images)
        others = min((square[number] for other, square in squares.items() if other != number), default=np.inf)
        of_class[RECOGNISED][number] = float(squares[number][number] < others)
    return tuple(
        Metric(step=step, final=True, metric=metric, class_id=number, value=one)
        for name, values in of_class.items()
        for metric, number, one in (
            *((BY_CLASS + name, number, one) for number, one in values.items()),
            (name, -1, float(np.mean(list(values.values())))),
        )
    )


def nearest_squares(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(n,) least squared distance of each of `images` (n, F) to one of `others` (m, F)."""
    found, known = images.astype(np.float64), others.astype(np.float64)
    squares = (known**2).sum(axis=1)[:, None] - 2 * known @ found.T
    return np.asarray(squares.min(axis=0) + (found**2).sum(axis=1))


def least_l2(image: np.ndarray, others: np.ndarray) -> float:
    return float(np.sqrt(((others.astype(np.float64) - image) ** 2).sum(axis=1).min()))


def least_ssim(image: np.ndarray, others: np.ndarray, shape: tuple[int, int, int]) -> float:
    """Least 1 - SSIM (Wang et al. 2004) over `others` (n, F)."""
    side = min(shape[:2])
    window = min(USUAL_WINDOW, side - 1 + side % 2)
    if window < SMALLEST_WINDOW:
        raise UserError(f"images of {shape[0]} x {shape[1]}: expected at least 3 x 3 pixels for SSIM")
    return float(1 - similarities(image.reshape(shape), others.reshape(-1, *shape), window).max())


def similarities(image: np.ndarray, others: np.ndarray, window: int) -> np.ndarray:
    """(n,) SSIM of one image (height, width, channels) with each of `others`, values in [0, 1], mean over channels.

    As scikit-image's `structural_similarity` with `data_range=1`: means over square windows, sample covariances, no
    window that leaves the image. All images at once: one call each would take minutes for a class of MNIST.
    """
    from scipy.ndimage import uniform_filter

    first, second = np.asarray(image, dtype=np.float64)[None], np.asarray(others, dtype=np.float64)
    count, border = window**2, (window - 1) // 2

    def mean(values: np.ndarray) -> np.ndarray:
        filtered = uniform_filter(values, size=(1, window, window, 1))
        return np.asarray(filtered[:, border : -border or None, border : -border or None])

    means = mean(first), mean(second)
    unbiased = count / (count - 1)
    variances = [
        unbiased * (mean(values**2) - centre**2) for values, centre in zip((first, second), means, strict=True)
    ]
    covariance = unbiased * (mean(first * second) - means[0] * means[1])
    luminance, contrast = 0.01**2, 0.03**2
    above = (2 * means[0] * means[1] + luminance) * (2 * covariance + contrast)
    below = (means[0] ** 2 + means[1] ** 2 + luminance) * (variances[0] + variances[1] + contrast)
    return np.asarray((above / below).mean(axis=(1, 2, 3)))
