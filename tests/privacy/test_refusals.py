"""There is no configuration that gives a proved epsilon where no theorem holds
(docs/privacy/checks.md#what-the-code-refuses)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.families.trees.mechanism import PoissonTrees
from dpgraph.families.trees.published import FixedBatchTrees
from dpgraph.planning.resolve import mechanism_for, resolve
from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.evaluate import accountants, evaluate, guarantee, solve_for
from dpgraph.privacy.calibration import solve
from dpgraph.privacy.mechanisms.base import mechanism_from

ACCOUNTANTS = accountants()
PREMISES = {one.name: one for one in (*par.SGD, par.STABLE, par.TWO_BATCHES)}
TREES: dict[str, Any] = {"affected_roots": 4, "q": 0.1, "sigma_over_clip": 20.0, "steps": 5}
SETTINGS: dict[str, dict[str, Any]] = {
    "poisson_gaussian": {"q": 0.1, "noise_multiplier": 4.0, "steps": 5},
    "double_mixture": TREES,
    "residual_clipping": {
        "affected_roots": 4, "q_self": 0.1, "q_neighbour": 0.1, "neighbour_to_self_clip": 0.2,
        "sigma_over_self_clip": 5.0, "steps": 5,
    },
    "residual_one_batch": {
        "affected_roots": 4, "q": 0.1, "neighbour_to_self_clip": 0.2, "sigma_over_self_clip": 5.0, "steps": 5,
    },
    "private_votes": {
        "q": 0.1, "noise_multiplier": 4.0, "steps": 5, "sigma_votes_over_norm": 6.0, "mass": 0.3, "degree_floor": 8,
        "eps_choice": 0.0,
    },
    "capped_votes": {
        "q": 0.1, "noise_multiplier": 4.0, "steps": 5, "sigma_votes_over_norm": 6.0, "sigma_degrees": 60.0,
        "cap_margin": 1.5, "degree_floor": 8, "most_voters": 70, "most_receivers": 30, "eps_choice": 0.0,
    },
    "private_quantile": {**TREES, "eps_quantile": 0.1},
    "paid_tuning": {"q": 0.1, "noise_multiplier": 4.0, "steps": 5, "runs": "geometric", "mean_runs": 3},
    "relational_static": {
        "nodes": 100, "relations": 200, "max_degree": 2, "negatives": 1, "q": 0.05, "sigma_over_clip": 3.0, "steps": 2,
    },
    "appr_training": {
        "rows": 20, "sigma_over_clip": 40.0, "column_support": 2, "q": 0.2, "noise_multiplier": 9.0, "steps": 5,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_below_are_fine_as_they_are(name: str) -> None:
    assert 0 < evaluate(name, "rigorous", SETTINGS[name], 1e-3) < 100


def test_every_accountant_with_premises_is_tried() -> None:
    sgd = {name for (name, mode, _), one in ACCOUNTANTS.items() if mode == "rigorous" and one.premises}
    assert sgd == set(SETTINGS)


VIOLATIONS = [
    (name, premise, value)
    for name in SETTINGS
    for premise, values in {
        "sampling": ("without replacement", "fixed partition"),
        "clipping": ("adaptive", "private percentile"),
        "groups": (2, 3),
        "sampler": ("algorithm-1", "greedy"),
        "batches": (1, 3),
    }.items()
    for value in values
    if PREMISES[premise] in ACCOUNTANTS[name, "rigorous", "epsilon"].premises
]


@pytest.mark.parametrize(("name", "premise", "value"), VIOLATIONS)
def test_a_premise_that_does_not_hold_is_refused_in_one_line(name: str, premise: str, value: Any) -> None:
    """Evaluated or solved for; what the premise must be is said with its reason."""
    for call in (
        lambda: evaluate(name, "rigorous", {**SETTINGS[name], premise: value}, 1e-3),
        lambda: guarantee(name, "rigorous", {**SETTINGS[name], premise: value}, 1e-3),
        lambda: solve_for(name, "rigorous", {**SETTINGS[name], premise: value}, "noise", delta=1e-3, epsilon=2.0),
    ):
        with pytest.raises(UserError, match=f"^{premise}={value}: expected {PREMISES[premise].holds}: ") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_every_kind_of_violation_is_tried() -> None:
    tried = {(premise, value) for _, premise, value in VIOLATIONS}
    assert {premise for premise, _ in tried} == set(PREMISES)
    assert ("double_mixture", "sampling", "without replacement") in VIOLATIONS
    assert ("double_mixture", "sampler", "algorithm-1") in VIOLATIONS
    assert ("relational_static", "clipping", "adaptive") in VIOLATIONS
    assert ("residual_clipping", "batches", 1) in VIOLATIONS
    for premise in PREMISES:  # whatever is not the theorem's premise and can be said at all
        others = set(PREMISES[premise].parameter.choices) - {PREMISES[premise].holds}
        assert others <= {value for name, value in tried if name == premise}


def test_private_thresholds_need_a_price() -> None:
    """Without eps_quantile nothing; with it, more than with a public clip norm, and never a gift."""
    with pytest.raises(UserError, match=r"^private_quantile: expected the parameter eps_quantile$"):
        evaluate("private_quantile", "rigorous", TREES, 1e-3)
    for price in (0.0, -1.0):
        with pytest.raises(UserError, match=r"^eps_quantile=.*: expected a finite number >= 1e-09 and <= 1e\+06$"):
            evaluate("private_quantile", "rigorous", {**TREES, "eps_quantile": price}, 1e-3)
    with pytest.raises(UserError, match=r"^double_mixture: unknown parameter eps_quantile"):
        evaluate("double_mixture", "rigorous", {**TREES, "eps_quantile": 0.1}, 1e-3)


@pytest.mark.parametrize("name", SETTINGS)
def test_delta_must_be_below_one_over_the_number_of_records(name: str) -> None:
    units = ACCOUNTANTS[name, "rigorous", "epsilon"].units
    with pytest.raises(UserError, match=rf"^delta=0.01: expected a number < 1 / {units} = 0.01$"):
        evaluate(name, "rigorous", {**SETTINGS[name], units: 100}, 0.01)
    assert evaluate(name, "rigorous", {**SETTINGS[name], units: 100}, 0.0099) > 0


def test_a_rigorous_statement_says_when_delta_was_not_checked() -> None:
    assert "delta < 1/N was not checked" in guarantee("double_mixture", "rigorous", TREES, 1e-3).assumptions
    checked = guarantee("double_mixture", "rigorous", {**TREES, "num_train": 100}, 1e-3)
    assert not [text for text in checked.assumptions if "not checked" in text]


@pytest.mark.parametrize(
    "name",
    [
        "moments",
        "hypergeometric",
        "relational_coupled",
        "class_dp_theorem5",
        "appr_gaussian_theorem6",
        "appr_training_theorem8",
    ],
)
def test_a_published_accountant_has_no_rigorous_epsilon_and_says_where_to_look(name: str) -> None:
    with pytest.raises(UserError, match=r"nothing is guaranteed: .*see "):
        evaluate(name, "rigorous", {}, 1e-5)
    refused = guarantee(name, "rigorous", {}, 1e-5)
    assert refused.epsilon is None
    assert "see " in (refused.reason or "")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 10**6), st.integers(0, 2), st.integers(1, 9), st.integers(1, 4), st.floats(0.01, 1e6),
    st.integers(1, 10**5), st.data(),
)  # fmt: skip
def test_no_configuration_of_the_published_mechanism_has_a_rigorous_epsilon(
    roots: int, hops: int, degree: int, groups: int, noise: float, steps: int, data: st.DataObject
) -> None:
    """Batches without replacement, Algorithm 1, private percentiles, groups: FixedBatchTrees, whatever its numbers."""
    mechanism = FixedBatchTrees(
        num_roots=roots,
        batch_size=data.draw(st.integers(1, roots)),
        steps=steps,
        hops=hops,
        max_degree=degree if hops else None,
        groups=groups,
        delta=1 / (10 * roots),
        noise_multiplier=noise,
    )
    assert mechanism.rigorous().epsilon is None
    with pytest.raises(UserError, match="nothing is guaranteed"):
        solve(mechanism, "rigorous", epsilon=1.0)


@pytest.mark.parametrize(
    "key", ["sampler", "sampling", "batches", "clipping", "groups", "batch_size", "clip_percentile", "affected_roots"]
)
def test_the_rigorous_mechanism_has_no_field_to_lie_in(key: str) -> None:
    """Neither batches, sampler, clipping nor R can be set: they follow from what the trainer runs."""
    mechanism = PoissonTrees(
        num_roots=100, steps=5, delta=1e-3, noise_multiplier=9.0, sampling_rate=0.1, hops=1, max_degree=2, list_cap=2
    )
    with pytest.raises(UserError, match=key):
        mechanism_from(PoissonTrees, {**mechanism.model_dump(), key: 1})


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_cells_of_the_published_variant_get_the_mechanism_without_a_guarantee(hops: int) -> None:
    cell = resolve(
        {
            "task": {"dataset": "cora"},
            "method": "dp-gnn" if hops else "dp-mlp",
            "model": {"architecture": "gcn" if hops else "mlp", "hops": hops},
            "training": {"learning_rate": 0.1, "steps": 30, "sampling_rate": 0.1},
            "privacy": {"variant": "published", "noise_multiplier": 50.0},
            "seeds": [0],
        }
    )
    assert mechanism_for(cell, 140).statement().rigorous.epsilon is None
