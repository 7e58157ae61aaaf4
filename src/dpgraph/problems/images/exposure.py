"""Attacks on models of images, and their metrics: inversion, membership, and disagreements of a student.

All metrics compare with private images or classes: they are numbers for whoever has these, and no part of a release.
"""

from dataclasses import dataclass

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.core.errors import UserError
from dpgraph.problems.base import SavedArrays
from dpgraph.problems.images.value import Images

L2, SSIM, BLANK = "inversion_l2/train", "inversion_ssim/train", "inversion_blank_l2/train"
RECOGNISED = "inversion_recognised/train"
BY_CLASS = "class_"  # before a metric: of each class, as class_accuracy/test
SMALLEST_WINDOW, USUAL_WINDOW = 3, 7  # pixels of SSIM's window
MEMBERSHIP = "membership_auc/train"


@dataclass(frozen=True)
class Inversion(SavedArrays):
    """One reconstructed image for each class, from one seed's released parameters alone."""

    images: np.ndarray  # (classes, F) float32 in [0, 1]


def inversion_metrics(value: Images, found: Inversion, step: int) -> tuple[Metric, ...]:
    """Return the means over classes of the MIA distances, and under `class_` those of each class (Zhang, section 4.3).

    The distances are the least Euclidean distance, and the least 1 - SSIM, of a reconstruction to a training image of
    the class; `inversion_blank_l2` is the distance of a black image, which knows no class. A reconstruction counts as
    `inversion_recognised` where the training image at the least angle to it, of all classes, is of its own class: by L2
    any dark image would be nearest to one with little ink, and a black one is not recognised. A class without training
    images has no metrics.
    """
    train, labels = value.train_nodes, np.asarray(value.labels)
    own = {number: train[labels[train] == number] for number in range(value.num_classes)}
    pixels = {number: np.asarray(value.features)[nodes] for number, nodes in own.items() if len(nodes)}
    angles = {number: least_angles(found.images, others) for number, others in pixels.items()}
    of_class: dict[str, dict[int, float]] = {L2: {}, SSIM: {}, BLANK: {}, RECOGNISED: {}}
    for number, images in pixels.items():
        image = found.images[number]
        of_class[L2][number] = least_l2(image, images)
        of_class[SSIM][number] = least_ssim(image, images, value.shape)
        of_class[BLANK][number] = least_l2(np.zeros_like(image), images)
        others = min((angle[number] for other, angle in angles.items() if other != number), default=np.inf)
        of_class[RECOGNISED][number] = float(angles[number][number] < others)
    return tuple(
        Metric(step=step, final=True, metric=metric, class_id=number, value=one)
        for name, values in of_class.items()
        if values
        for metric, number, one in (
            # further digits of single classes would be a third of the rows that are kept
            *((BY_CLASS + name, number, float(np.float32(one))) for number, one in values.items()),
            (name, -1, float(np.mean(list(values.values())))),
        )
    )


def least_angles(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return (n,) the least angle, as 1 - its cosine, of each of `images` (n, F) to one of `others` (m, F).

    It is infinite for a black image.
    """
    found, known = (one.astype(np.float64) for one in (images, others))
    lengths, sizes = (np.linalg.norm(one, axis=1) for one in (found, known))
    cosines = known @ found.T / np.maximum(sizes, np.finfo(np.float64).tiny)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lengths > 0, 1 - cosines.max(axis=0) / lengths, np.inf)


def least_l2(image: np.ndarray, others: np.ndarray) -> float:
    """Return the least Euclidean distance of an image (F,) to `others` (n, F)."""
    return float(np.sqrt(((others.astype(np.float64) - image) ** 2).sum(axis=1).min()))


def least_ssim(image: np.ndarray, others: np.ndarray, shape: tuple[int, int, int]) -> float:
    """Return the least 1 - SSIM (Wang et al. 2004) of an image (F,) over `others` (n, F)."""
    side = min(shape[:2])
    window = min(USUAL_WINDOW, side - 1 + side % 2)
    if window < SMALLEST_WINDOW:
        raise UserError(f"images of {shape[0]} x {shape[1]}: expected at least 3 x 3 pixels for SSIM")
    return float(1 - similarities(image.reshape(shape), others.reshape(-1, *shape), window).max())


def similarities(image: np.ndarray, others: np.ndarray, window: int) -> np.ndarray:
    """Return (n,) SSIM of one image (height, width, channels) with each of `others`, values in [0, 1], mean over
    channels.

    Equal to scikit-image's `structural_similarity` with `data_range=1`: means over square windows, sample covariances,
    no window that leaves the image. All images are compared at once: one call each would take minutes for a class of
    MNIST.
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


@dataclass(frozen=True)
class Disagreements(SavedArrays):
    """One seed's disagreements of two discriminators, made of released labels and public images alone."""

    steps: np.ndarray  # (P,) int64 steps done at each look
    images: np.ndarray  # (L,) int64 ids of the labelled public images
    labels: np.ndarray  # (L,) int64 noisy labels that were released
    disagreed: np.ndarray  # (P, L) bool
    fitted: np.ndarray  # (2, P, L) bool: whose class of which discriminator is the released label


def disagreement_metrics(true: np.ndarray, found: Disagreements) -> tuple[Metric, ...]:
    """Return metrics of what two discriminators of a student disagree on, at each look (Zhang, Figure 3.3).

    `disagreements/labelled` is a number of images, `wrong_disagreements/labelled` the share of wrong labels among them,
    where there are any. The share compares released labels with the public images' own classes, `true` (N,), which no
    method reads. `wrong/labelled` is the share among all labelled images, at the last look.
    `training_accuracy_1/labelled` and `_2` are the shares of labelled images that each discriminator assigns to their
    released labels (Figure 3.3(a)).
    """
    wrong = np.asarray(true)[found.images] != found.labels
    metrics, last = [], len(found.steps) - 1
    for place, (step, chosen) in enumerate(zip(found.steps, found.disagreed, strict=True)):
        values = {"disagreements/labelled": float(chosen.sum())}
        if chosen.size:
            for peer, fitted in enumerate(found.fitted[:, place], 1):
                values[f"training_accuracy_{peer}/labelled"] = float(fitted.mean())
        if chosen.any():
            values["wrong_disagreements/labelled"] = float(wrong[chosen].mean())
        if place == last and len(wrong):
            values["wrong/labelled"] = float(wrong.mean())
        metrics += [
            Metric(step=int(step), final=place == last, metric=name, value=value) for name, value in values.items()
        ]
    return tuple(metrics)


def membership_metrics(value: Images, scores: np.ndarray, step: int) -> list[Metric]:
    """Return the area under the curve of the attack that calls images with small cross-entropy members.

    See Yeom et al. (2018); at 1/2 losses do not show membership. `scores` are (N, classes) logits; infinite and
    missing losses count as the largest. Where training and test images are drawn alike, which no official split
    promises, the area bounds the epsilon of one image from below, in the mean over images, and not that of classes. The
    result is empty without labelled images on both sides.
    """
    from scipy.stats import mannwhitneyu  # takes half a second, which other stages need not wait for

    labels, test = np.asarray(value.labels), value.nodes_of("test")
    members, others = (nodes[labels[nodes] >= 0] for nodes in (value.train_nodes, test))
    if not len(members) or not len(others):
        return []
    found = [losses(scores[nodes], labels[nodes]) for nodes in (others, members)]
    area = mannwhitneyu(*found, method="asymptotic").statistic / (len(members) * len(others))
    return [Metric(step=step, final=True, metric=MEMBERSHIP, value=float(area))]


def losses(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the (n,) cross-entropies of logits (n, classes)."""
    logits = np.asarray(scores, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        top = logits.max(axis=1, keepdims=True)
        whole = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
        found = whole - logits[np.arange(len(labels)), labels]
    return np.nan_to_num(found, nan=np.inf, posinf=np.inf)
