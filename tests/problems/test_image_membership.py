"""Membership of images by their losses, by brute force."""

import numpy as np
import pytest

from dpgraph.core.randomness import numpy_generator
from dpgraph.data.records import TEST, TRAIN
from dpgraph.problems.images.exposure import losses, membership_metrics
from dpgraph.problems.images.value import Images
from dpgraph.problems.images.work import ImageClassification


def images(labels):
    split = np.array([TRAIN] * 8 + [TEST] * 5, dtype=np.uint8)
    return Images(
        name="x", features=np.zeros((13, 9), np.float32), labels=labels, split=split, num_classes=3, shape=(3, 3, 1)
    )


@pytest.mark.parametrize("ties", [False, True])
def test_it_is_the_share_of_pairs_in_which_the_member_has_the_smaller_loss(ties):
    random = numpy_generator("tests", "membership", ties)
    labels, scores = random.integers(0, 3, 13), random.normal(size=(13, 3))
    labels[2] = -1  # no label: left out
    scores = np.round(scores) if ties else scores
    found = membership_metrics(images(labels), scores, 7)[0]
    chosen = losses(scores, np.maximum(labels, 0))
    pairs = [(chosen[i], chosen[j]) for i in range(8) if i != 2 for j in range(8, 13)]
    wanted = np.mean([1.0 if a < b else 0.5 if a == b else 0.0 for a, b in pairs])
    assert found.value == pytest.approx(wanted)
    assert (found.final, found.step) == (True, 7)


def test_losses_are_cross_entropies_at_any_size():
    scores = np.array([[1000.0, 0, -1000], [0.0, 1, 2], [np.nan, 0, 0]])
    found = losses(scores, np.array([2, 1, 0]))
    assert found[0] == pytest.approx(2000)
    assert found[1] == pytest.approx(np.log(np.exp([0, 1, 2]).sum()) - 1)
    assert found[2] == np.inf


def test_only_the_last_evaluation_has_it():
    value, scores, work = images(np.arange(13) % 3), np.zeros((13, 3)), ImageClassification()
    last = {one.metric: one.value for one in work.evaluate(value, scores, 1, True)}
    assert last["membership_auc/train"] == 0.5  # all losses are equal
    assert "membership_auc/train" not in {one.metric for one in work.evaluate(value, scores, 1, False)}
