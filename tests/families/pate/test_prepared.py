"""The release of teachers' votes: what its noise, its threshold and its cache depend on."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from dpgraph.audits.cases import CPU, TEACHER_KINDS
from dpgraph.core.errors import UserError
from dpgraph.data.records import TRAIN
from dpgraph.families.pate.audit import CLASSES, TEACHERS, images, prepared
from dpgraph.families.pate.prepared import NOISE, PreparedTeachers, shape_of, votes_of
from dpgraph.privacy.cache import VARIABLE

KIND = next(iter(TEACHER_KINDS.values()))
CAPS = (20, 10)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))


def test_the_threshold_is_public():
    """Where no count can reach it nothing is answered, however much the teachers agree."""
    step = prepared(KIND, images(30), 0, CAPS)
    step.threshold = 1e6
    with patch.object(PreparedTeachers, "votes", lambda self: np.zeros((TEACHERS, 30), dtype=np.int16)):
        assert (step.labels() < 0).all()


def test_each_release_has_noise_of_its_own():
    """The same noise under two caps, thresholds or seeds would cancel in the difference of two releases."""
    value = images(30)
    noise = {
        prepared(KIND, value, *one).ledger.entries[NOISE].names
        for one in ((0, CAPS), (1, CAPS), (0, (21, 10)), (0, (20, 9)))
    }
    assert len(noise) == 4


def test_kept_votes_are_of_these_records_only():
    value = images(30)
    step = prepared(KIND, value, 0, CAPS)
    before = votes_of(step.records, step.plan, CPU)
    assert np.array_equal(votes_of(step.records, step.plan, CPU), before)
    train = np.asarray(value.split) == TRAIN
    labels = np.where(train, 0, np.asarray(value.labels))
    other = prepared(KIND, replace(value, labels=labels), 0, CAPS)
    assert not np.array_equal(votes_of(other.records, other.plan, CPU), before)
    # classes of public images are no part of it
    labels = np.where(train, np.asarray(value.labels), 0)
    same = prepared(KIND, replace(value, labels=labels), 0, CAPS)
    assert np.array_equal(votes_of(same.records, same.plan, CPU), before)


def test_a_class_without_training_images_is_no_error():
    value = images(30)
    labels = np.asarray(value.labels) % (CLASSES - 1)
    step = prepared(KIND, replace(value, labels=labels), 0, CAPS)
    votes = votes_of(step.records, step.plan, CPU)
    assert votes.shape == (TEACHERS, 30)
    assert ((votes >= 0) & (votes < CLASSES)).all()


def test_images_that_are_too_small_are_one_line():
    records = prepared(KIND, images(30), 0, CAPS).records
    with pytest.raises(UserError, match=r"^shape=\(2, 8, 1\): expected images of at least 4 x 4 pixels$"):
        shape_of(replace(records, meta={**records.meta, "shape": (2, 8, 1)}))


def test_fewer_images_than_teachers_is_one_line():
    step = prepared(KIND, images(30), 0, CAPS)
    few = replace(step.plan, teachers=1000)
    with pytest.raises(
        UserError, match=r"^training.teachers=1000: expected at most \d+, the number of training images$"
    ):
        votes_of(step.records, few, CPU)
