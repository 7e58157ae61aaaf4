"""Classes by noisy counts: the noise is exact, the threshold keeps its delta, and the whole is (epsilon, delta)-DP."""

import math
import re
import secrets
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from dpgraph.core.errors import UserError
from dpgraph.data.records import TRAIN
from dpgraph.families.votes.mechanism import PoissonVotes
from dpgraph.families.votes.removed_mechanism import CappedVotes
from dpgraph.own_graph import classes
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.classes import ClassSelection, noisy_counts, select_classes, two_sided_geometric, uniform_below
from dpgraph.own_graph.fit import fit
from dpgraph.privacy.mechanisms.base import mechanism_from
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_relations import campus


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


def test_a_choice_that_fails_is_charged(tmp_path):
    """Tries until one succeeds would have no delta; where a try cannot be recorded, no noise is drawn."""
    labels = np.arange(400) % 20
    own = from_arrays(np.zeros((2, 0), int), labels, np.ones((400, 1)), ["train"] * 400)
    for tries in (1, 2):
        with pytest.raises(UserError, match="this try is charged"):
            fit(own, 1.0, out=tmp_path / "out", releases=tmp_path / "mine")
        assert len((tmp_path / "mine").read_text().splitlines()) == tries
    with pytest.raises(UserError, match="expected a file that can be written"):
        fit(own, 1.0, releases=tmp_path)


def test_classes_that_public_numbers_put_out_of_reach_cost_nothing(tmp_path):
    own = from_arrays(np.zeros((2, 0), int), np.arange(60) % 2, np.ones((60, 1)), ["train"] * 60)
    with pytest.raises(UserError, match=r"nodes that train=60: expected at least \d+, .*--classes"):
        fit(own, 1.0, releases=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"labelled": 0},
        {"mean_degree": -3.0},
        {"words": math.nan},
        {"relation": "node-remove", "degree_bound": 0},
        {"relation": "edge", "method": "own"},
        {"mean_degree": 0.01, "relation": "node-remove", "method": "votes"},  # votes would drown in noise
    ],
)
def test_a_mistyped_option_costs_nothing(wrong, tmp_path):
    labels, rng = np.arange(400) % 2, np.random.default_rng(0)
    own = from_arrays(np.zeros((2, 0), int), labels, rng.normal(size=(400, 2)), ["train"] * 399 + ["test"])
    with pytest.raises(UserError, match="--" + [*wrong][-1].replace("_", "-")):
        fit(own, 4.0, releases=tmp_path / "mine", **wrong)
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    own = from_arrays(np.zeros((2, 0), int), np.arange(60) % 2, np.ones((60, 1)), ["train"] * 60)
    with pytest.raises(UserError, match=r"--out=.*: expected a folder that can be made"):
        fit(own, 4.0, out=tmp_path / "file/out", releases=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_noise_of_every_class_is_its_own():
    noisy = noisy_counts(np.full(60, 1000), Fraction(1, 4), uniform_below(None))
    assert len(set(noisy.tolist())) > 10


def test_a_selection_reads_noisy_counts_alone(monkeypatch):
    """Other labels with the same noisy counts: the same classes in the same order, and the same number of labels."""
    selection, found = ClassSelection(Fraction(2), 1e-6), []
    least = selection.threshold
    monkeypatch.setattr(classes, "noisy_counts", lambda counts, *_: np.array([least, least + 30, least - 1, least + 5]))
    for sizes in ((60, 50, 40, 1), (1, 90, 60, 70)):
        labels = np.repeat(np.arange(4), sizes)
        own = from_arrays(np.zeros((2, 0), int), labels, np.ones((sum(sizes), 1)), ["train"] * sum(sizes))
        kept, total = select_classes(own, selection, None)
        found.append((kept.classes, total))
    assert found == [(("0", "1", "3"), 3 * least + 35)] * 2


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


@pytest.mark.parametrize("relation", ["node-null", "node-remove", "edge"])
def test_a_card_adds_up_what_the_choice_of_classes_costs(relation, tmp_path):
    """Both parts are within the total that was asked for, and nothing is stated that holds for one outcome alone."""
    own = replace(campus(), classes_given=False)
    fitted = fit(own, 8.0, relation=relation, mean_degree=60.0, delta=1e-4, out=tmp_path / "out", audit=False)
    card, mechanism = fitted.card, fitted.card["mechanism"]
    text = (tmp_path / "out/release/card.md").read_text()
    assert (card["epsilon"], card["delta"]) == (pytest.approx(8.0, rel=1e-3), pytest.approx(1e-4))
    assert "which classes there are" in card["releases"][0]
    if relation == "edge":  # an edge changes no label
        assert mechanism["delta"] == pytest.approx(1e-4)
        assert card["classes_epsilon"] is None
        assert card["beside"] == []
        assert any("no ε is stated where classes are chosen" in line for line in card["not_covered"])
        return
    rest = mechanism_from(CappedVotes if relation == "node-remove" else PoissonVotes, mechanism).rigorous()
    assert card["epsilon"] == 8.0
    assert 7.1 < rest.epsilon <= 8.0 - card["classes_epsilon"]
    assert card["classes_epsilon"] == pytest.approx(0.8, abs=1e-5)
    assert rest.delta + card["classes_delta"] == pytest.approx(1e-4)
    assert card["mu"] is None
    assert card["epsilon_by_delta"] == {}
    assert {one["relation"] for one in card["beside"]} <= {"edge"}
    assert "ε = 0.8, δ = 2.5e-05 for the choice of classes" in text
    labelled = int(re.search(r"settings are made for (\d+) labels to train on, by noisy counts", text)[1])
    assert labelled <= (own.roles == TRAIN).sum()


def test_stated_classes_cost_nothing():
    stated, chosen = (fit(replace(campus(), classes_given=given), 4.0, delta=1e-4).card for given in (True, False))
    assert stated["mechanism"]["delta"] == 1e-4 > chosen["mechanism"]["delta"]
    assert stated["mu"] > 0
    assert stated["classes_epsilon"] is None
