"""Which images belong to a unit, and which of them a step reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.families.units.sampling import Units, class_units, cluster_units, record_units, subclass_units
from dpgraph.privacy.procedure import Lists

CLASSES = 3


def made(count=200, pixels=6):
    random = numpy_generator("tests", "units of images")
    return random.random((count, pixels), dtype=np.float32), random.integers(0, CLASSES, count)


def members(units):
    return [units.ids[start:end].tolist() for start, end in zip(units.starts, units.starts[1:], strict=False)]


def test_classes_hold_their_training_images_alone():
    _, labels = made()
    labels[7] = -1
    train = np.arange(0, 200, 2)
    found = class_units(train, labels, CLASSES)
    assert members(found) == [[one for one in train if labels[one] == number] for number in range(CLASSES)]
    assert (found.kind, record_units(train).kind) == (Lists.CLASSES, Lists.NONE)
    assert members(record_units(train)) == [[one] for one in train]


@given(st.integers(1, 6), st.integers(0, 199))
@settings(max_examples=30, deadline=None)
def test_no_image_moves_another_ones_subclass(parts, changed):
    """Under another image, another label or none in the place of one, all others stay where they are."""
    features, labels = made()
    before = subclass_units(np.arange(200), labels, features, CLASSES, parts, "key")
    assert len(before.sizes) == CLASSES * parts
    others, other_labels = features.copy(), labels.copy()
    others[changed], other_labels[changed] = 1e3 * features[changed, ::-1], -1
    after = subclass_units(np.arange(200), other_labels, others, CLASSES, parts, "key")
    without = [[one for one in unit if one != changed] for unit in members(before)]
    assert [[one for one in unit if one != changed] for unit in members(after)] == without
    for number, unit in enumerate(members(before)):
        assert set(labels[unit]) <= {number // parts}


def test_clusters_depend_on_all_images_of_a_class():
    features, labels = made()
    before = cluster_units(np.arange(200), labels, features, CLASSES, 4, "key")
    assert sorted(before.ids.tolist()) == list(range(200))
    others = features.copy()
    others[labels == 0] = np.where(np.arange(6) < 3, 5.0, 0.0)[None] * features[labels == 0]
    after = cluster_units(np.arange(200), labels, others, CLASSES, 4, "key")
    moved = [set(one) != set(other) for one, other in zip(members(before), members(after), strict=True)]
    assert any(moved[:4])
    assert not any(moved[4:])


def test_fewer_images_than_clusters_leave_some_empty():
    features, labels = made(5)
    found = cluster_units(np.arange(5), labels, features, CLASSES, 50, "key")
    assert found.sizes.max() == 1
    assert found.sizes.sum() == 5


@pytest.mark.parametrize("function", [subclass_units, cluster_units])
def test_no_subclass_at_all_is_one_line(function):
    features, labels = made()
    with pytest.raises(UserError, match=r"^subclasses=0: expected an integer >= 1$"):
        function(np.arange(200), labels, features, CLASSES, 0, "key")


UNITS = Units(np.array([4, 5, 6, 9, 2]), np.array([0, 3, 3, 4, 5]), Lists.CLASSES)


def test_all_images_of_a_unit_with_equal_weights():
    images, weights = UNITS.chosen(np.array([0, 2]), None, numpy_generator("unused"))
    np.testing.assert_array_equal(images, [[4, 5, 6], [9, 9, 9]])
    np.testing.assert_allclose(weights, [[1 / 3] * 3, [1, 0, 0]])
    nothing, _ = UNITS.chosen(np.zeros(0, dtype=np.int64), None, numpy_generator("unused"))
    assert nothing.shape == (0, 0)
    with pytest.raises(ValueError, match="empty unit"):
        UNITS.chosen(np.array([1]), None, numpy_generator("unused"))


def test_a_few_images_of_a_unit_are_its_own_and_each_as_likely():
    images, weights = UNITS.chosen(np.array([0, 3]), 30_000, numpy_generator("tests", "drawn"))
    assert set(images[0]) == {4, 5, 6}
    assert set(images[1]) == {2}
    shares = np.bincount(images[0], minlength=7)[4:] / 30_000
    np.testing.assert_allclose(shares, 1 / 3, atol=0.02)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-4)


def test_a_units_size_does_not_decide_what_is_drawn_of_another_one():
    smaller = Units(np.array([4, 9, 2]), np.array([0, 1, 1, 2, 3]), Lists.CLASSES)
    larger = Units(np.array([4, 9, 2, 7, 8]), np.array([0, 1, 1, 2, 5]), Lists.CLASSES)
    drawn = np.array([0, 2, 3])
    one, other = (units.chosen(drawn, 8, numpy_generator("same"))[0] for units in (smaller, larger))
    np.testing.assert_array_equal(one[:2], other[:2])


def test_a_unit_that_becomes_empty_changes_no_distribution_of_another_one():
    """What is drawn of others is not the same, since the stream is read from an earlier place, but as likely."""
    counts = []
    for drawn in (np.array([2, 0]), np.array([0])):  # without its one image unit 2 is dropped before
        generator = numpy_generator("tests", "an empty unit")
        places = np.concatenate([UNITS.chosen(drawn, 3, generator)[0][-1] for _ in range(10_000)])
        counts.append(np.bincount(places, minlength=7)[4:])
    assert counts[0].tolist() != counts[1].tolist()
    np.testing.assert_allclose(np.array(counts) / 30_000, 1 / 3, atol=0.02)
