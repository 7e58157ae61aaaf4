"""MIA distance: against scikit-image, and by brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.metrics import structural_similarity

from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.registry import entry
from dpgraph.problems.images.exposure import (
    BLANK,
    BY_CLASS,
    L2,
    RECOGNISED,
    SSIM,
    Inversion,
    inversion_metrics,
    least_angles,
    least_ssim,
    similarities,
)
from dpgraph.problems.images.prepare import store
from dpgraph.problems.images.value import Images
from dpgraph.problems.images.work import ImageClassification

SHAPE = (9, 8, 2)


def images(count=12):
    random = numpy_generator("tests", "inversion")
    split = np.full(count, TRAIN, dtype=np.uint8)
    split[-2:] = TEST
    return Images(
        name="small", features=random.random((count, 144), dtype=np.float32), labels=np.arange(count) % 3,
        split=split, num_classes=4, shape=SHAPE,
    )  # fmt: skip


@pytest.mark.parametrize("window", [3, 7])
def test_ssim_is_scikit_images(window):
    value = images()
    pictures = value.features.reshape(-1, *SHAPE).astype(np.float64)
    pictures[3] = 0.0
    found = similarities(pictures[0], pictures, window)
    wanted = [
        structural_similarity(pictures[0], one, win_size=window, data_range=1.0, channel_axis=2) for one in pictures
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-10)
    assert found[0] == pytest.approx(1.0)


def test_distances_are_least_over_the_training_images_of_the_class():
    value = images()
    found = Inversion(numpy_generator("tests", "found").random((4, 144), dtype=np.float32))
    metrics = {(one.metric, one.class_id): one.value for one in inversion_metrics(value, found, 5)}
    least = []
    for number in range(3):
        own = [i for i in range(10) if value.labels[i] == number]
        least.append(min(np.linalg.norm(value.features[i] - found.images[number]) for i in own))
        assert metrics[BY_CLASS + L2, number] == pytest.approx(least[-1], rel=1e-5)
        blank = min(np.linalg.norm(value.features[i]) for i in own)
        assert metrics[BY_CLASS + BLANK, number] == pytest.approx(blank, rel=1e-5)
    assert metrics[L2, -1] == pytest.approx(np.mean(least), rel=1e-5)
    assert (BY_CLASS + L2, 3) not in metrics  # a class without training images
    assert len({(one.metric, one.class_id) for one in inversion_metrics(value, found, 5)}) == 4 * 3 + 4
    assert {number for name, number in metrics if not name.startswith(BY_CLASS)} == {-1}  # a mean is one number


def test_without_labels_there_are_no_metrics():
    value = images()
    found = Inversion(value.features[:3])
    assert inversion_metrics(replace(value, labels=np.full_like(value.labels, -1)), found, 5) == ()


def test_recognised_is_nearest_to_its_own_class_of_all():
    """By hand: class 0's reconstruction is an image of class 1, the others are images of their own."""
    value = images()
    own = [np.flatnonzero(value.labels[:10] == number)[0] for number in range(3)]
    found = Inversion(value.features[[own[1], own[1], own[2], 0]] * np.float32([[1], [0.1], [1], [1]]))  # one is dark
    metrics = {(one.metric, one.class_id): one.value for one in inversion_metrics(value, found, 5)}
    assert [metrics[BY_CLASS + RECOGNISED, number] for number in range(3)] == [0, 1, 1]
    assert metrics[RECOGNISED, -1] == pytest.approx(2 / 3)


def test_a_black_image_is_not_recognised():
    found = Inversion(np.zeros_like(images().features[:4]))
    (mean,) = [one.value for one in inversion_metrics(images(), found, 5) if one.metric == RECOGNISED]
    assert mean == 0


@given(st.integers(0, 2**32 - 1))
def test_angles_are_those_of_single_pairs(seed):
    random = np.random.default_rng(seed)
    found, others = random.random((4, 6)).astype(np.float32), random.random((5, 6)).astype(np.float32)
    found[random.random(4) < 0.3] = 0
    others[random.random(5) < 0.3] = 0
    for one, least in zip(found, least_angles(found, others), strict=True):
        lengths = np.linalg.norm(one) * np.linalg.norm(others, axis=1)
        pairs = (
            [one @ other / (length or 1.0) for other, length in zip(others, lengths, strict=True)] if one.any() else []
        )
        assert least == pytest.approx(1 - max(pairs) if pairs else np.inf, abs=1e-6)


def test_a_training_image_is_at_no_distance():
    value = images()
    metrics = {(one.metric, one.class_id): one.value for one in inversion_metrics(value, Inversion(value.features), 5)}
    assert metrics[L2, -1] == 0
    assert metrics[SSIM, -1] == pytest.approx(0, abs=1e-9)


def test_a_class_that_is_empty_in_the_files_is_one_line(tmp_path):
    known = entry("demo-images")
    raw = RawImages(np.zeros((20, 8, 8, 1), np.float32), np.arange(20) % 9)
    task = Task(dataset="demo-images", split="random-60-15-25")
    with pytest.raises(UserError, match=r"^demo-images: classes=9: expected 10 as in the registry$"):
        store(
            task, known.model_copy(update={"expected": known.expected.model_copy(update={"nodes": 20})}), raw, tmp_path
        )


def test_images_too_small_for_a_window_are_one_line():
    with pytest.raises(UserError, match=r"^images of 2 x 8: expected at least 3 x 3 pixels for SSIM$"):
        least_ssim(np.zeros(16), np.zeros((1, 16)), (2, 8, 1))


def test_what_is_kept_is_read_back_and_a_damaged_file_is_one_line(tmp_path):
    found = Inversion(np.ones((2, 3), dtype=np.float32))
    path = tmp_path / "seed=0.exposure.npz"
    found.save(path)
    np.testing.assert_array_equal(Inversion.load(path).images, found.images)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(UserError, match=r"^.*damaged; delete result.json next to it and train the cell again$"):
        Inversion.load(path)


def test_the_problem_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match="reconstructions"):
        ImageClassification().exposure_metrics(images(), object(), 1)
