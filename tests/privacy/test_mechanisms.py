"""Mechanisms: what they state, what they refuse, what they cost."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from dpgraph.errors import UserError
from dpgraph.privacy.guarantee import Guarantee, PrivacyStatement
from dpgraph.privacy.mechanisms import FixedBatchTrees, NonPrivate, PoissonTrees, mechanism_from
from dpgraph.privacy.renyi import theorem1_epsilon

ARXIV: dict[str, Any] = {"num_roots": 90941, "delta": 1 / 909410}


def poisson_trees(**changes: Any) -> PoissonTrees:
    settings = {
        **ARXIV,
        "steps": 500,
        "noise_multiplier": 32.0,
        "sampling_rate": 10000 / 90941,
        "hops": 1,
        "max_degree": 7,
        "list_cap": 7,
    }
    return PoissonTrees(**{**settings, **changes})


def poisson_mlp(**changes: Any) -> PoissonTrees:
    return poisson_trees(**{"hops": 0, "max_degree": None, "list_cap": None, **changes})


def fixed_trees(**changes: Any) -> FixedBatchTrees:
    settings = {
        **ARXIV,
        "steps": 500,
        "noise_multiplier": 2.0,
        "batch_size": 10000,
        "hops": 1,
        "max_degree": 7,
        "groups": 3,
    }
    return FixedBatchTrees(**{**settings, **changes})


@pytest.mark.parametrize(
    ("hops", "degree", "cap", "roots"),
    [(1, 7, 7, 15), (1, 7, 2, 10), (2, 3, 3, 25), (2, 1, 1, 5), (1, 1, 1, 3)],
)
def test_affected_roots(hops: int, degree: int, cap: int, roots: int) -> None:
    """N(K, r) + D N(K, r - 1), by hand: K = D = 3, r = 2: 13 + 3 * 4."""
    assert poisson_trees(hops=hops, max_degree=degree, list_cap=cap).affected_roots == roots


def test_no_more_roots_change_than_there_are() -> None:
    """All 20 roots may change; one more, so that the pair also covers a changed node that is no root."""
    assert (
        poisson_trees(num_roots=20, sampling_rate=0.5, delta=0.01, hops=2, max_degree=9, list_cap=9).affected_roots
        == 21
    )


def test_the_two_epsilons_of_the_rigorous_mechanism() -> None:
    """Reference: arxiv-like, R = 15, noise 32 C, T = 500, delta = 1/(10 N): 12.489 and, as lambda = 2, 10.134."""
    statement = poisson_trees().statement()
    assert statement.rigorous.epsilon == pytest.approx(12.48939, rel=5e-3)
    assert statement.published.epsilon == pytest.approx(10.13431, rel=1e-4)
    assert "does not hold here" in " ".join(statement.published.assumptions)
    assert (statement.sampler, statement.batches, statement.clipping) == (
        "stable",
        "poisson",
        "joint, public clip norm",
    )
    assert statement.noise_std_over_clip == 32.0


def test_the_published_mechanism_has_no_rigorous_epsilon() -> None:
    statement = fixed_trees().statement()
    assert statement.published.epsilon == pytest.approx(10.13431, rel=1e-4)
    assert statement.rigorous.epsilon is None
    reason = statement.rigorous.reason or ""
    assert all(word in reason for word in ("Lemma 2", "percentiles", "sqrt(3)"))
    assert statement.noise_std_over_clip == 2 * 8 * 2.0
    assert statement.sampler == "algorithm-1"


def test_a_single_group_has_nothing_to_reproach_for_groups() -> None:
    assert "sqrt" not in (fixed_trees(groups=1).rigorous().reason or "")


def test_dp_mlp_as_published_and_as_proved() -> None:
    published = fixed_trees(hops=0, max_degree=None, groups=2)
    assert published.noise_std_over_clip == 2.0
    assert "Poisson" in (published.rigorous().reason or "")
    assert "Lemma 2" not in (published.rigorous().reason or "")
    proved = poisson_mlp(noise_multiplier=2.0)
    assert proved.affected_roots == 1
    assert proved.statement().sampler == "none"
    rdp, tight = published.published().epsilon, proved.rigorous().epsilon
    assert rdp is not None
    assert tight is not None
    assert 0.85 * rdp < tight < rdp  # same formula's mechanism, tighter accountant
    assert proved.published().epsilon == pytest.approx(rdp, rel=1e-9)


def test_a_prefix_costs_less_and_nothing_is_spent_before_the_first_step() -> None:
    mechanism = poisson_trees(steps=100)
    nothing, some, everything = (mechanism.at_step(t) for t in (0, 40, 100))
    assert nothing.rigorous.epsilon == nothing.published.epsilon == 0
    assert 0 < some.rigorous.epsilon < everything.rigorous.epsilon  # type: ignore[operator]
    assert some.steps == 40
    assert everything == mechanism.statement()
    assert fixed_trees().at_step(0).rigorous.epsilon is None


def test_non_private() -> None:
    statement = NonPrivate(steps=10).statement()
    assert statement.rigorous.epsilon == statement.published.epsilon == math.inf
    assert statement.noise_std_over_clip is None


@pytest.mark.parametrize("mechanism", [poisson_trees(), poisson_mlp(), fixed_trees(), NonPrivate(steps=4)])
def test_json_round_trips(mechanism: PoissonTrees | FixedBatchTrees | NonPrivate) -> None:
    assert mechanism_from(json.loads(mechanism.model_dump_json())) == mechanism
    statement = mechanism.statement()
    strict = json.dumps(statement.model_dump(mode="json"), allow_nan=False)
    assert PrivacyStatement.model_validate(json.loads(strict)) == statement
    assert mechanism_from(statement.mechanism) == mechanism


@pytest.mark.parametrize(
    ("make", "changes", "line"),
    [
        (poisson_trees, {"sampling_rate": 1.2}, r"^sampling_rate=1\.2: expected a number in \(0, 1\]$"),
        (poisson_trees, {"max_degree": 0}, "^max_degree=0: expected an integer >= 1"),
        (poisson_trees, {"list_cap": 0}, "^list_cap=0: expected an integer >= 1"),
        (poisson_trees, {"list_cap": None}, "^list_cap=None: expected an integer >= 1"),
        (poisson_trees, {"hops": -1}, "^hops=-1: expected"),
        (poisson_trees, {"steps": 0}, "^steps=0: expected an integer >= 1$"),
        (poisson_trees, {"noise_multiplier": 0.0}, "^noise_multiplier=0.0: expected a finite number > 0$"),
        (poisson_trees, {"noise_multiplier": math.inf}, "^noise_multiplier=inf"),
        (poisson_trees, {"delta": 1 / 90941}, r"^delta=.*: expected a number < 1 / num_roots = 1\.1e-05$"),
        (poisson_trees, {"num_roots": 0}, "^num_roots=0: expected an integer >= 1$"),
        (poisson_mlp, {"max_degree": 3}, "^max_degree=3: expected .* None without$"),
        (fixed_trees, {"batch_size": 90942}, "^batch_size=90942: expected an integer from 1 to num_roots = 90941$"),
        (fixed_trees, {"groups": 0}, "^groups=0: expected"),
        (fixed_trees, {"delta": 0.0}, r"^delta=0.0: expected a number in \(0, 1\)$"),
    ],
)
def test_refused_in_one_line(make: Any, changes: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=line) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"kind": "poisson-forest"}, "poisson-forest"),
        ({"kind": "non-private", "steps": 3, "epsilon": 1}, "epsilon"),
        ({**poisson_trees().model_dump(), "sampler": "algorithm-1"}, "sampler"),
    ],
)
def test_an_unknown_kind_or_key_is_refused_in_one_line(value: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=line) as caught:
        mechanism_from(value)
    assert "\n" not in str(caught.value)


def test_open_quantities_must_be_closed_first() -> None:
    for mechanism in (poisson_trees(noise_multiplier=None), fixed_trees(steps=None)):
        with pytest.raises(UserError, match="calibrate the mechanism first"):
            mechanism.statement()


def test_a_missing_epsilon_needs_a_reason() -> None:
    with pytest.raises(ValidationError, match="reason"):
        Guarantee(mode="rigorous", accountant="-", adjacency="-", sampling="-", epsilon=None)


def test_theorem_1_is_read_at_the_same_noise() -> None:
    """std = 2 C N(K, r) lambda, whatever the list cap."""
    mechanism = poisson_trees(max_degree=3, list_cap=9, noise_multiplier=24.0)
    expected = theorem1_epsilon(90941, 10000, 4, 24.0 / 8, 500, 1 / 909410)
    assert mechanism.published().epsilon == pytest.approx(expected)
