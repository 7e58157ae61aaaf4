"""Mechanisms over tuples: cited numbers, what they refuse, and how their epsilons move."""

import numpy as np
import pytest
from scipy.stats import binom

from dpgraph.core.errors import UserError
from dpgraph.families.tuples.epsilon import static_pair
from dpgraph.families.tuples.mechanism import AdaptiveTuples, ReleasedTuples, StandardTuples, StaticTuples
from dpgraph.privacy.accountants.double_mixture import Mixture, MixturePair
from dpgraph.privacy.accountants.renyi import epsilon_from_rdp
from dpgraph.privacy.mechanisms.base import mechanism_from

# MAG-USA of Huang et al.: uncapped relations, 2 epochs of batches of 32 (design: privacy-soundness 4.3)
MAG = {
    "num_roots": 702482, "num_protected": 132558, "steps": 43905,
    "delta": 1 / 702482 * 0.999, "sampling_rate": 32 / 702482,
    "negatives": 4,
}  # fmt: skip
SMALL = {
    "num_roots": 4000, "num_protected": 2000, "steps": 100, "delta": 1e-5, "sampling_rate": 0.01, "negatives": 4,
    "max_degree": 4, "noise_multiplier": 1.0,
}  # fmt: skip
PAPERS = (StandardTuples, AdaptiveTuples, ReleasedTuples)


@pytest.mark.parametrize(("noise", "cap", "epsilon"), [(1.064, 5, 8.04), (2.0, 5, 1.44)])
def test_static_clipping_at_the_papers_size(noise, cap, epsilon):
    """With refills as large as the cap: 8.04 and 1.44; here K + D = 10 tuples leave at D = 5."""
    found = StaticTuples(**MAG, max_degree=5, list_cap=cap, noise_multiplier=noise).rigorous()
    assert found.epsilon == pytest.approx(epsilon, rel=5e-3)
    assert (found.relation, found.scope) == ("entity", "parameters")


def test_published_epsilons_of_the_scripts_noises():
    """Scripts' noises on the uncapped relations: 10.38 with adaptive clipping at .532, as if one entity moved C."""
    asked = {**MAG, "max_degree": 5}
    assert ReleasedTuples(**asked, noise_multiplier=0.532).published().epsilon == pytest.approx(10.38, rel=2e-3)
    assert AdaptiveTuples(**asked, noise_multiplier=0.532).published().epsilon == pytest.approx(10.38, rel=2e-3)
    assert StandardTuples(**asked, noise_multiplier=0.964).published().epsilon > 8


def test_noise_is_that_of_the_claimed_sensitivity():
    assert AdaptiveTuples(**SMALL).noise_std_over_clip == 2
    assert ReleasedTuples(**SMALL).noise_std_over_clip == StandardTuples(**SMALL).noise_std_over_clip == 1
    assert StaticTuples(**SMALL, list_cap=1).noise_std_over_clip == 1
    for kind in PAPERS:
        assert kind(**SMALL).divisor == pytest.approx(40)


@pytest.mark.parametrize("kind", PAPERS)
def test_the_papers_mechanisms_have_no_rigorous_epsilon(kind):
    found = kind(**SMALL).rigorous()
    assert found.epsilon is None
    assert "not stable" in found.reason
    if kind is not StandardTuples:
        assert "11 C" in found.reason  # 1 + 4 (1 + 4) / 2
    assert kind(**SMALL).published().relation == "entity"
    with pytest.raises(UserError, match="nothing is guaranteed"):
        kind(**SMALL).rdp((2.0,))
    again = mechanism_from(kind, kind(**SMALL).model_dump(mode="json"))
    assert again == kind(**SMALL)


def test_static_epsilon_moves_as_it_should():
    first = StaticTuples(**SMALL, list_cap=1).rigorous().epsilon
    for change in ({"noise_multiplier": 0.8}, {"steps": 150}, {"max_degree": 6}, {"list_cap": 3}, {"negatives": 8},
                   {"sampling_rate": 0.02}):  # fmt: skip
        assert StaticTuples(**{**SMALL, "list_cap": 1, **change}).rigorous().epsilon > first * 1.001, change
    assert StaticTuples(**{**SMALL, "list_cap": 1, "num_protected": 3000}).rigorous().epsilon < first


@pytest.mark.parametrize("entities", [95, 100, 105, 115, 4000])
def test_chords_between_batch_sizes_are_above_the_average_over_all_of_them(entities):
    """Also where batches of about 100 tuples need more negatives than there are entities, and the chance is 1."""
    pair = static_pair(nodes=entities, relations=1000, max_degree=2, refill=2, negatives=1, rate=0.1, noise=5.0)
    exact, at = 0.0, np.array([0.5])
    for size in range(30, 200):
        chance = min(1.0, size / entities)
        with_it = Mixture.binomial(count=4, rate=0.1).plus(Mixture.binomial(count=1, rate=chance, unit=2.0))
        one = MixturePair(with_it, Mixture.binomial(count=2, rate=0.1), 5.0)
        exact += binom.pmf(size, 1000, 0.1) * float(one.delta(at)[0])
    bound = sum(weight * float(one.delta(at)[0]) for weight, one in zip(pair.weights, pair.pairs, strict=True))
    assert exact * (1 - 1e-9) <= bound < 1.05 * exact


def test_renyi_bounds_are_above_the_privacy_loss_distribution():
    mechanism = StaticTuples(**SMALL, list_cap=1)
    orders = tuple(np.arange(1.5, 40, 0.5))
    rdp = epsilon_from_rdp(orders, mechanism.rdp(orders), mechanism.delta)
    exact = mechanism.rigorous().epsilon
    assert exact < rdp < 1.3 * exact


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"negatives": 60}, "negatives=60: expected at most 20: 2000 entities"),
        ({"sampling_rate": 1.5}, "sampling_rate=1.5"),
        ({"max_degree": 0}, "max_degree=0"),
        ({"list_cap": 0}, "list_cap=0"),
        ({"delta": 1e-3}, "delta=0.001: expected a number < 1 / num_protected"),
        ({"num_protected": 0}, "num_protected=0"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(UserError, match=message):
        StaticTuples(**{**SMALL, "list_cap": 1, **change})
