"""The release of teachers' votes: what its noise, its threshold and its cache depend on."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpgraph.audits.cases import CPU, TEACHER_KINDS
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.records import TRAIN
from dpgraph.families.pate.audit import CLASSES, TEACHERS, images, prepared
from dpgraph.families.pate.prepared import (
    NO_ANSWER,
    NOISE,
    PreparedTeachers,
    confident_gnmax,
    noisy_histograms,
    noisy_largest_count,
    shape_of,
    vote_histograms,
    votes_of,
)
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


def random_votes(queries: int, classes: int, teachers: int, *names: str | int) -> np.ndarray:
    generator = numpy_generator("test", "votes", *names)
    return generator.multinomial(teachers, generator.dirichlet(np.ones(classes)), size=queries)


def test_histograms_count_teachers() -> None:
    histograms = vote_histograms(np.array([[0, 2, 1], [0, 1, 1], [2, 2, 1]]), 3)
    assert histograms.tolist() == [[2, 0, 1], [0, 1, 2], [0, 3, 0]]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 12), st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6))
def test_as_the_algorithm_says(queries: int, max_checks: int, max_answers: int, seed: int) -> None:
    """Query by query, on the same noise; the run ends at a cap."""
    votes, threshold = random_votes(queries, 3, 20, seed), 11.0
    generator = numpy_generator("test", "run", seed)
    checks = noisy_largest_count(votes[:max_checks], 2.0, generator)
    labels, checked, answered = np.full(queries, NO_ANSWER), 0, []
    for query in range(queries):
        if checked == max_checks or len(answered) == max_answers:
            break
        checked += 1
        if checks[query] >= threshold:
            answered.append(query)
    labels[answered] = noisy_histograms(votes[answered], 1.0, generator).argmax(axis=1)
    answers = confident_gnmax(
        votes,
        threshold=threshold,
        check_noise_std=2.0,
        vote_noise_std=1.0,
        max_checks=max_checks,
        max_answers=max_answers,
        generator=numpy_generator("test", "run", seed),
    )
    assert answers.labels.tolist() == labels.tolist()
    assert (answers.checks, answers.answers) == (checked, len(answered))


@pytest.mark.parametrize(("caps", "made"), [((100, 20), (20, 20)), ((30, 50), (30, 30)), ((500, 500), (100, 100))])
def test_caps_stop_the_run(caps: tuple[int, int], made: tuple[int, int]) -> None:
    """Unanimous teachers: every check passes."""
    votes = np.tile([50, 0], (100, 1))
    answers = confident_gnmax(
        votes,
        threshold=25.0,
        check_noise_std=1.0,
        vote_noise_std=1.0,
        max_checks=caps[0],
        max_answers=caps[1],
        generator=numpy_generator("test", "caps"),
    )
    assert (answers.checks, answers.answers) == made
    assert (answers.labels != NO_ANSWER).sum() == made[1]
    assert set(answers.labels[: made[1]]) == {0}


def test_failed_checks_cost_checks_only() -> None:
    answers = confident_gnmax(
        np.tile([5, 5], (40, 1)),
        threshold=500.0,
        check_noise_std=1.0,
        vote_noise_std=1.0,
        max_checks=30,
        max_answers=10,
        generator=numpy_generator("test", "failed"),
    )
    assert (answers.checks, answers.answers) == (30, 0)
    assert (answers.labels == NO_ANSWER).all()


def test_laws_of_checks_and_answers() -> None:
    """P(check passes) = Phi((n_max - T) / sigma_1); P(first of two) = Phi(gap / (sqrt 2 sigma_2))."""
    votes, trials = np.tile([30, 20], (40_000, 1)), 40_000
    answers = confident_gnmax(
        votes,
        threshold=33.0,
        check_noise_std=5.0,
        vote_noise_std=8.0,
        max_checks=trials,
        max_answers=trials,
        generator=numpy_generator("test", "laws"),
    )
    assert answers.answers / answers.checks == pytest.approx(norm.cdf(-3 / 5), abs=0.01)
    answered = answers.labels[answers.labels != NO_ANSWER]
    assert (answered == 0).mean() == pytest.approx(norm.cdf(10 / (8 * 2**0.5)), abs=0.012)
