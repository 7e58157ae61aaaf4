"""The choice of inference: law of its noise, its price, what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpgraph.config.cell import Cell
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.families.trees.mechanism import ResidualTrees
from dpgraph.planning.resolve import mechanism_for, resolve
from dpgraph.privacy.accountants.composition import PureDp, composed_delta
from dpgraph.privacy.accountants.tuning import paid_epsilon
from dpgraph.privacy.auditing import measured_errors, profile_test
from dpgraph.privacy.calibration import calibrated, epsilon_of, solve
from dpgraph.privacy.choice import noisily_positive

TRIALS = 20_000


def answers(count: float, sensitivity: float, epsilon: float, name: str) -> np.ndarray:
    generator = numpy_generator("choice", name, str(count))
    return np.array(
        [
            noisily_positive(count=count, sensitivity=sensitivity, epsilon=epsilon, generator=generator).place
            for _ in range(TRIALS)
        ]
    )


@pytest.mark.parametrize("count", [-20, -3, 0, 3, 20])
def test_the_law_of_the_answer(count: int) -> None:
    """P(count + Laplace(b) > 0) = 1 - exp(-count / b) / 2 for count >= 0, b = R / epsilon."""
    scale = 9 / 0.8
    tail = math.exp(-abs(count) / scale) / 2
    expected = 1 - tail if count >= 0 else tail
    assert abs(answers(count, 9, 0.8, "law").mean() - expected) < 4 * math.sqrt(expected * (1 - expected) / TRIALS)


@pytest.mark.parametrize(("planted", "refuted"), [(1, False), (9, True)])
def test_answers_of_neighbouring_counts_keep_the_claim(planted: int, refuted: bool) -> None:
    """Counts -9 and 0 differ by R = 9; with noise for a sensitivity of 1 the claim falls."""
    without, present = (answers(count, 9 / planted, 0.8, "audit").astype(float) for count in (-9, 0))
    errors = measured_errors(present, without)
    test = profile_test(errors, lambda epsilons: composed_delta(PureDp(0.8), steps=1, epsilons=epsilons))
    assert test.refuted == refuted


@pytest.mark.parametrize(("sensitivity", "epsilon", "name"), [(0, 1, "sensitivity"), (1, 0, "choice_epsilon")])
def test_what_the_noise_needs(sensitivity: float, epsilon: float, name: str) -> None:
    with pytest.raises(UserError, match=rf"^{name}=0: expected a finite number > 0$"):
        noisily_positive(count=1, sensitivity=sensitivity, epsilon=epsilon, generator=numpy_generator("choice"))


def trees(**changes: Any) -> ResidualTrees:
    settings = {
        "num_roots": 1000, "delta": 1e-4, "steps": 40, "hops": 1, "max_degree": 2, "list_cap": 2, "sampling_rate": 0.1,
        "neighbour_rate": 0.2, "neighbour_clip": 0.1, "noise_multiplier": 3.0,
    }  # fmt: skip
    return ResidualTrees(**{**settings, **changes})


@pytest.mark.parametrize("choice", [0.05, 0.3, 2.0])
def test_the_price_lies_between_nothing_and_basic_composition(choice: float) -> None:
    without, paid = (epsilon_of(trees(choice_epsilon=epsilon), "rigorous") for epsilon in (0.0, choice))
    assert without < paid <= (without + choice) * (1 + 1e-4)
    assert paid >= choice * (1 - 1e-3)


def test_a_free_choice_costs_nothing_and_leaves_no_trace() -> None:
    assert trees() == trees(choice_epsilon=0.0)
    assert "chosen" not in " ".join(trees().statement().rigorous.assumptions)
    said = trees(choice_epsilon=0.3).statement()
    assert "whether inference reads neighbours is chosen at epsilon 0.3" in said.rigorous.assumptions
    assert said.rigorous.delta == 1e-4
    nothing, chosen = trees(neighbour_clip=0.0), trees(neighbour_clip=0.0, choice_epsilon=0.3)
    assert [term.lists for term in nothing.procedure((1.0,)).terms] == ["own record"]
    assert not nothing.procedure((1.0,)).releases
    (choice,) = chosen.procedure((1.0,)).releases
    assert (choice.lists, choice.noise, choice.sensitivity) == ("stable", 0.3, chosen.changed_trees)


def test_only_the_last_step_has_paid_for_the_choice() -> None:
    paid, free = trees(choice_epsilon=0.5), trees()
    assert paid.at_step(20) == free.at_step(20)
    assert paid.at_step(40) == paid.statement()
    assert paid.at_step(0).rigorous.epsilon == 0


@pytest.mark.parametrize("unknown", ["noise", "steps"])
def test_calibration_pays_for_the_choice(unknown: Any) -> None:
    closed = solve(trees(choice_epsilon=0.4), "rigorous", unknown, epsilon=2.0)
    assert epsilon_of(closed, "rigorous") <= 2.0
    free = solve(trees(), "rigorous", unknown, epsilon=2.0)
    if unknown == "noise":
        assert (closed.noise_multiplier or 0) > (free.noise_multiplier or 0)
    else:
        assert (closed.steps or 0) < (free.steps or 0)
    assert calibrated(closed, "rigorous", None, epsilon=None).statement.mechanism["choice_epsilon"] == 0.4


def test_a_paid_search_pays_for_the_choice_of_each_run() -> None:
    costs = [
        paid_epsilon(trees(choice_epsilon=epsilon), "geometric", mean_runs=5, delta=1e-4) for epsilon in (0.0, 0.2)
    ]
    assert costs[0] < costs[1] < costs[0] + 0.2


def test_renyi_divergence_of_randomised_response() -> None:
    p = np.array([0.9, 0.1])
    orders = np.array([1.5, 2.0, 30.0])
    expected = [np.log(np.sum(p**a * p[::-1] ** (1 - a))) / (a - 1) for a in orders]
    np.testing.assert_allclose(PureDp(math.log(9)).rdp(orders), expected, rtol=1e-12)


def cell(method: str = "dp-residual", **privacy: Any) -> Cell:
    return resolve(
        {
            "task": {"dataset": "toy"},
            "method": method,
            "model": {"architecture": "gcn", "hops": 1},
            "training": {"learning_rate": 1.0, "sampling_rate": 0.1, "steps": 30},
            "privacy": {"epsilon": 8.0, **privacy},
            "seeds": [0],
        }
    )


def test_cells() -> None:
    mechanism = mechanism_for(cell(choice_epsilon=0.4), 140)
    assert isinstance(mechanism, ResidualTrees)
    assert mechanism.choice_epsilon == 0.4
    assert mechanism_for(cell(), 140).choice_epsilon == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("choice", [8.0, 9.0])
def test_a_choice_that_takes_the_whole_budget_is_refused(choice: float) -> None:
    message = rf"^choice_epsilon={choice}: expected a number < epsilon = 8, of which it is a part$"
    with pytest.raises(UserError, match=message):
        mechanism_for(cell(choice_epsilon=choice), 140)


def test_other_methods_refuse_a_choice() -> None:
    with pytest.raises(UserError, match=r"^cell: privacy\.choice_epsilon=0\.4: unknown key"):
        cell("dp-gnn", choice_epsilon=0.4)


@pytest.mark.parametrize("value", [-0.1, math.inf])
def test_the_mechanism_refuses(value: float) -> None:
    with pytest.raises((UserError, ValueError), match="choice_epsilon"):
        trees(choice_epsilon=value)
