"""Parts of the training nodes and fresh samples of them."""

from itertools import pairwise

import numpy as np
import pytest

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.sampling.batches import nodes_in_use
from dpgraph.families.subgraphs.steps import FixedParts, FreshNodes, equal_parts, parts_by_id
from dpgraph.privacy.public_numbers import nodes_with_loss

TRAIN = np.sort(numpy_generator("train nodes").choice(200, 90, replace=False))


def used(share, train=TRAIN):
    return nodes_in_use(train, 200, nodes_with_loss(num_train=len(train), train_share=share), numpy_generator("share"))


def test_shares_are_nested_and_exact():
    samples = [used(share) for share in (0.1, 0.2, 0.5, 1.0)]
    assert [len(nodes) for nodes in samples] == [9, 18, 45, 90]
    for smaller, larger in pairwise(samples):
        assert set(smaller) < set(larger)
        assert (np.diff(smaller) > 0).all()
    assert len(used(1e-6)) == 1
    assert not np.array_equal(used(0.5), nodes_in_use(TRAIN, 200, 45, numpy_generator("another seed")))


def test_equal_parts_are_a_partition():
    parts = equal_parts(TRAIN, 7, numpy_generator("parts"))
    assert sorted(len(part) for part in parts) == [12] * 1 + [13] * 6
    assert np.array_equal(np.sort(np.concatenate(parts)), TRAIN)
    assert all((np.diff(part) > 0).all() for part in parts)


def test_the_part_of_an_id_does_not_depend_on_other_nodes():
    whole = parts_by_id(TRAIN, 200, 7, numpy_generator("parts"))
    assert np.array_equal(np.sort(np.concatenate(whole)), TRAIN)
    for gone in TRAIN[::9]:
        left = parts_by_id(TRAIN[gone != TRAIN], 200, 7, numpy_generator("parts"))
        assert all(np.array_equal(a[a != gone], b) for a, b in zip(whole, left))
    moved = equal_parts(TRAIN[1:], 7, numpy_generator("parts"))
    assert any(
        not np.array_equal(a[a != TRAIN[0]], b) for a, b in zip(equal_parts(TRAIN, 7, numpy_generator("parts")), moved)
    )


def test_every_epoch_visits_each_part_once_in_its_own_order():
    parts = [np.array([index]) for index in range(5)]
    schedule = FixedParts(parts, ("orders", 3))
    visits = [int(schedule.nodes(step)[0]) for step in range(50)]
    epochs = [tuple(visits[first : first + 5]) for first in range(0, 50, 5)]
    assert all(sorted(epoch) == list(range(5)) for epoch in epochs)
    assert len(set(epochs)) > 5
    resumed = FixedParts(parts, ("orders", 3))
    assert [int(resumed.nodes(step)[0]) for step in (17, 18, 33)] == [visits[17], visits[18], visits[33]]


def test_fresh_nodes_are_a_poisson_sample():
    schedule = FreshNodes(TRAIN, 0.2, numpy_generator("fresh"))
    draws = [schedule.nodes(step) for step in range(2000)]
    counts = np.bincount(np.concatenate(draws), minlength=200)
    assert not counts[np.setdiff1d(np.arange(200), TRAIN)].any()
    assert counts[TRAIN] / 2000 == pytest.approx(0.2, abs=0.05)
    sizes = np.array([len(draw) for draw in draws])
    assert sizes.var() == pytest.approx(90 * 0.2 * 0.8, rel=0.15)
    assert (np.diff(draws[0]) > 0).all()
    assert np.array_equal(FreshNodes(TRAIN, 1.0, numpy_generator("all")).nodes(0), TRAIN)
