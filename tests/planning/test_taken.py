"""Trials of a search: which values they have."""

from itertools import combinations

import pytest
from pydantic import ValidationError

from dpgraph.config.experiment import Search
from dpgraph.planning.taken import trials

SPACE = {"training.learning_rate": (0.1, 0.2, 0.3), "model.dropout": (0.0, 0.5, 0.8), "model.width": (8, 16, 32)}


def values(path, settings):
    part, name = path.split(".")
    return settings[part][name]


def test_orthogonal_trials_have_each_pair_of_values_once():
    found = trials("p/s", Search(strategy="orthogonal", space=SPACE)).values()
    assert len(found) == 9
    for first, second in combinations(SPACE, 2):
        pairs = [(values(first, one), values(second, one)) for one in found]
        assert sorted(pairs) == sorted({(a, b) for a in SPACE[first] for b in SPACE[second]})


@pytest.mark.parametrize(
    "space",
    [
        {name: SPACE[name] for name in list(SPACE)[:2]},
        {**SPACE, "model.width": (8, 16)},
        {**SPACE, "training.weight_decay": (0.0, 0.1, 0.2)},
    ],
)
def test_orthogonal_trials_want_three_settings_of_one_length(space):
    with pytest.raises(ValidationError, match="expected three settings with as many values each"):
        Search(strategy="orthogonal", space=space)


@pytest.mark.parametrize("strategy", ["grid", "orthogonal"])
def test_what_is_not_random_has_no_number_and_no_distribution(strategy):
    with pytest.raises(ValidationError, match="expected trials exactly when random"):
        Search(strategy=strategy, space=SPACE, trials=3)
    with pytest.raises(ValidationError, match="expected fixed with"):
        Search(strategy=strategy, space=SPACE, distribution="poisson")


def test_a_grid_has_every_combination():
    assert len(trials("p/s", Search(strategy="grid", space=SPACE))) == 27
