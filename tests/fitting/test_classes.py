"""Classes by noisy counts: the noise is exact, the threshold keeps its delta, and the whole is (epsilon, delta)-DP."""

import math
import secrets
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from dpgraph.errors import UserError
from dpgraph.fitting import classes
from dpgraph.fitting.classes import ClassSelection, noisy_counts, select_classes, two_sided_geometric, uniform_below
from dpgraph.fitting.tables import from_arrays
from dpgraph.privacy.relation import Relation


@pytest.mark.parametrize("epsilon", [Fraction(3, 10), Fraction(1), Fraction(5, 2)])
def test_noise_has_the_two_sided_geometric_law(epsilon):
    below, drawn = uniform_below(5), 20_000
    found = np.array([two_sided_geometric(epsilon, below) for _ in range(drawn)])
    reach = math.floor(4 / epsilon)
    sizes = np.arange(-reach, reach + 1)
    law = np.exp(-float(epsilon) * abs(sizes)) * math.tanh(float(epsilon) / 2)
    seen = np.array([(found == size).sum() for size in sizes])
    assert chisquare([*seen, drawn - seen.sum()], drawn * np.array([*law, 1 - law.sum()])).pvalue > 1e-4


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-2), (4.0, 1e-6), (1.0, 0.2)])
def test_selections_of_neighbours_are_within_epsilon_and_delta(epsilon, delta):
    """By the exact laws of what is kept with its noisy count: of n + 1 and n labels, and of the only label and none."""
    one = ClassSelection.within(epsilon=epsilon, delta=delta)
    rate, most = float(one.epsilon), 4000
    noise = np.arange(-most, most + 1)
    law = np.exp(-rate * abs(noise)) * math.tanh(rate / 2)

    def output(count):
        """Probabilities of each kept count, and of none."""
        if not count:
            return np.array([*np.zeros(2 * most), 1.0])
        kept = np.zeros(2 * most + 1)
        values = count + noise
        inside = (values >= one.threshold) & (values < 2 * most)
        kept[values[inside]] = law[inside]
        kept[-1] = 1 - kept[:-1].sum()
        return kept

    for more, less in ((1, 0), (2, 1), (one.threshold, one.threshold - 1), (50, 49)):
        for first, second in ((output(more), output(less)), (output(less), output(more))):
            excess = np.maximum(first - math.exp(rate) * second, 0).sum()
            assert excess <= one.delta * (1 + 1e-9), (more, less)
    alone = 1 - output(1)[-1]
    assert one.delta * math.exp(-rate) * 0.999 < alone <= one.delta  # one less would be too little


def test_a_label_of_a_class_that_is_not_kept_is_none():
    labels = np.array([0] * 60 + [1] * 50 + [2] + [-1] * 9)
    own = from_arrays(np.zeros((2, 0), int), labels, np.ones((120, 1)), ["train"] * 120)
    for seed in (None, 0):
        found, total = select_classes(own, ClassSelection(Fraction(2), 1e-6), seed)
        assert found.classes == ("0", "1")
        assert (found.labels == np.where(labels == 2, -1, labels)).all()
        assert abs(total - 110) < 30
    with pytest.raises(UserError, match="--classes"):
        select_classes(own, ClassSelection(Fraction(1, 100), 1e-6), 0)


def test_held_out_labels_make_no_class():
    labels = np.arange(90) % 3
    own = from_arrays(np.zeros((2, 0), int), labels, np.ones((90, 1)), np.where(labels == 2, "test", "train"))
    assert select_classes(own, ClassSelection(Fraction(3), 1e-3), None)[0].classes == ("0", "1")


def test_noise_of_a_release_is_the_operating_systems(monkeypatch):
    drawn = []
    monkeypatch.setattr(secrets, "randbelow", lambda most, below=secrets.randbelow: drawn.append(most) or below(most))
    assert len(noisy_counts(np.array([5, 6]), Fraction(1), uniform_below(None))) == 2
    assert drawn
    again = [noisy_counts(np.array([5, 6]), Fraction(1), uniform_below(3)).tolist() for _ in range(2)]
    assert again[0] == again[1]


def test_what_a_selection_costs():
    one = ClassSelection.within(epsilon=4.0, delta=1e-5)
    assert float(one.epsilon) == pytest.approx(0.4, abs=1e-6)
    assert float(one.epsilon) <= 0.4
    assert one.delta == pytest.approx(2.5e-6)
    assert one.charged_under(Relation.NODE_NULL)
    assert not one.charged_under(Relation.EDGE)
    with pytest.raises(UserError, match="--epsilon 1e-08"):
        ClassSelection.within(epsilon=1e-8, delta=1e-5)
    assert classes.FEWEST == 2
