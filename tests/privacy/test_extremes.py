"""Every accountant by name at extreme settings: a number or one line, soon, and nothing else."""

from __future__ import annotations

import math
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.families.trees.planner import Question
from dpgraph.families.tuples import epsilon as relational
from dpgraph.privacy.accountants import composition, double_mixture
from dpgraph.privacy.accountants.composition import (
    ComposedPair,
    RepeatedPair,
    composed_delta,
    composed_epsilon,
    gaussian_pair,
)
from dpgraph.privacy.accountants.double_mixture import affected_roots_pair, residual_one_batch_pair
from dpgraph.privacy.accountants.evaluate import accountants, evaluate, solve_for
from dpgraph.privacy.accountants.gaussian import gaussian_delta, gaussian_epsilon
from dpgraph.privacy.accountants.parameters import Parameter
from dpgraph.privacy.solving import highest_rate


@pytest.mark.parametrize(("steps", "delta", "mu"), [(10, 1e-12, 0.3), (1000, 1e-12, 0.03), (10**5, 1e-10, 1e-3)])
def test_rounding_does_not_reach_the_smallest_allowed_delta(steps: int, delta: float, mu: float) -> None:
    """Exact Gaussian DP, never understated beyond the grid's own tolerance."""
    exact = gaussian_epsilon(mu=mu * math.sqrt(steps), delta=delta)
    assert exact * (1 - 1e-4) <= composed_epsilon(gaussian_pair(mu), steps=steps, delta=delta) <= exact * 1.005


def test_a_delta_that_rounding_reaches_is_refused() -> None:
    with pytest.raises(UserError, match=r"^delta=1e-11: expected a number >= 1e-10 for 100000 steps: rounding"):
        composed_epsilon(gaussian_pair(0.001), steps=10**5, delta=1e-11)


def test_steps_of_a_mechanism_that_runs_once_round_as_well() -> None:
    """50,000 full batches of mu = 1 in all: exact 8.21 at this delta, and 8.00 without their rounding."""
    many = RepeatedPair(gaussian_pair(1 / math.sqrt(50_000)), 50_000)
    for once in (many, ComposedPair((gaussian_pair(1e-6), many))):
        with pytest.raises(UserError, match=r"^delta=1.01e-15: expected a number >= 5e-11 for 5000\d steps: rounding"):
            composed_epsilon(gaussian_pair(1e-6), steps=1, delta=1.01e-15, once=once)
    for delta in (6e-11, 1e-9):
        found = composed_epsilon(gaussian_pair(1e-6), steps=1, delta=delta, once=many)
        assert gaussian_epsilon(mu=1.0, delta=delta) <= found


def test_a_curve_is_not_below_the_true_one_where_rounding_reaches_it() -> None:
    """At 7.5 exact 1.55e-13, and 1.15e-13 without what Fourier transforms of 30,000 steps lose."""
    steps, epsilons = 30_000, np.linspace(6.0, 8.0, 41)
    found = composed_delta(gaussian_pair(steps**-0.5), steps=steps, epsilons=epsilons, tail_mass=1e-13)
    assert (found >= gaussian_delta(mu=1.0, epsilon=epsilons)).all()


@pytest.mark.parametrize("price", [709.0, 750.0, 1500.0, 1e5])
def test_a_price_whose_exponential_overflows_is_added(price: float) -> None:
    """A choice at such a price protects no one; what else runs keeps its own epsilon."""
    run: dict[str, Any] = {"affected_roots": 2, "q": 0.1, "sigma_over_clip": 2.0, "steps": 100}
    alone = evaluate("double_mixture", "rigorous", run, 1e-5)
    with warnings.catch_warnings(action="error"):
        both = evaluate("private_quantile", "rigorous", {**run, "eps_quantile": price}, 1e-5)
    assert price + alone * 0.99 <= both <= (price + alone) * 1.01


def test_without_any_protection_the_bound_is_crude_but_above_the_truth() -> None:
    """Full batches at noise 1e-3 C: mu = 1000 sqrt(T)."""
    crude = evaluate("poisson_gaussian", "rigorous", {"q": 1, "noise_multiplier": 1e-3, "steps": 20}, 1e-5)
    exact = gaussian_epsilon(mu=1e3 * math.sqrt(20), delta=1e-5)
    assert exact <= crude < 1.1 * exact


ACCOUNTANTS = accountants()


# One parameter at a time leaves these settings.
BASE: dict[str, Any] = {
    "affected_roots": 5, "answers": 100, "batch_size": 1000, "batches": 2, "checks": 100, "column_norm": 1.0,
    "column_support": 4, "compositions": 100, "eps_gumbel": 0.1, "eps_laplace": 0.1, "eps_pagerank": 1.0,
    "eps_quantile": 0.1, "groups": 1, "hops": 1, "lambda_max": 32, "max_degree": 5, "mean_runs": 10.0, "negatives": 4,
    "neighbour_to_self_clip": 0.5, "nodes": 10**4, "noise_multiplier": 4.0, "num_train": 20_000, "order": 8.0,
    "q": 0.05, "q_neighbour": 0.05, "q_self": 0.05, "refill": 3, "relations": 10**5, "row_delta": 1e-8, "rows": 70,
    "sampled_share": 0.1, "sensitivity": 1.0, "sigma": 10.0, "sigma_over_clip": 4.0, "sigma_over_self_clip": 4.0,
    "sigma_over_sensitivity": 4.0, "sigma_threshold": 50.0, "sigma_votes": 50.0, "steps": 100, "top_k": 4,
    "sigma_votes_over_norm": 6.0, "eps_choice": 0.1, "mass": 0.3, "degree_floor": 8,
    "sigma_degrees": 100.0, "cap_margin": 2.0, "most_voters": 1000, "most_receivers": 1000, "hub_limit": 100,
    "sigma_hubs": 100.0, "sigma_mean": 20.0, "sigma_reader": 40.0, "reader_steps": 20,
}  # fmt: skip
EXTREMES = (-1, 0, 1e-300, 1e-9, 1 + 1e-9, 1e12, 1e308, 10**18, math.inf, math.nan)
ENDLESS = 30  # seconds of processor time after which a setting counts as endless; the slowest takes 4


@contextmanager
def soon(seconds: int) -> Iterator[None]:
    """Whatever takes longer is ended: a test that hangs shows nothing. A warning is an error."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def told(key: tuple[Any, Any, str], chosen: dict[str, Any], delta: float = 1e-6) -> str:
    """What is wrong with an answer, empty: it is a number from 0 to inf or a refusal in one line."""
    with soon(ENDLESS):
        try:
            epsilon = evaluate(*key[:2], chosen, delta, key[2])
        except UserError as error:
            return "" if "\n" not in str(error) and len(str(error)) < 500 else f"refused in many words: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "" if isinstance(epsilon, float) and epsilon >= 0 else f"epsilon {epsilon!r}"


def ends_of(parameter: Parameter) -> tuple[Any, ...]:
    """Both ends of the declared range, what lies just beyond, and numbers that are never asked in earnest."""
    if parameter.choices or parameter.kind is bool:
        return (*parameter.choices, True, False, 7, "", None)
    edges = [edge for edge in (parameter.above, parameter.least, parameter.most) if edge is not None]
    finite = [edge for edge in edges if math.isfinite(edge)]
    found = (*EXTREMES, *finite, *(edge * (1 + 1e-9) + 1e-320 for edge in finite), "x", None)
    return tuple({repr(one): one for one in found}.values())


@pytest.mark.parametrize("key", ACCOUNTANTS, ids="-".join)
def test_every_parameter_at_both_ends(key: tuple[Any, Any, str]) -> None:
    known = ACCOUNTANTS[key]
    base = {name: BASE[name] for name in known.required if name in BASE}
    base |= {name: known.parameters[name].choices[0] for name in known.required if name not in BASE}
    assert told(key, base) == ""
    wrong = [
        (name, value, problem)
        for name, parameter in known.parameters.items()
        for value in ends_of(parameter)
        if (problem := told(key, {**base, name: value}))
    ]
    wrong += [("delta", delta, problem) for delta in (-1, 0, 1e-300, 1e-30, 1 - 1e-16, 1, math.inf, math.nan)
              if (problem := told(key, base, delta))]  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("key", ACCOUNTANTS, ids="-".join)
def test_all_parameters_at_the_same_end(key: tuple[Any, Any, str]) -> None:
    """Squares and products of what each range admits stay within floating point."""
    known = ACCOUNTANTS[key]
    rest = {name: known.own[name].choices[0] for name in known.required if known.own[name].choices}
    numbers = [name for name, one in known.own.items() if not one.choices and one.kind is not bool]
    most = {name: known.own[name].most for name in numbers}
    least = {name: _least(known.own[name]) for name in numbers}
    noises = {name for name in numbers if name == "noise_multiplier" or name.startswith("sigma")}
    worst = {**most, **{name: least[name] for name in noises}}
    best = {**least, **{name: most[name] for name in noises}}
    for chosen in (most, least, worst, best):
        assert told(key, {**rest, **chosen}) == "", chosen


def _least(parameter: Parameter) -> float:
    return parameter.least if parameter.least is not None else (parameter.above or 0.0) + 1e-12


@pytest.mark.parametrize("key", [key for key in ACCOUNTANTS if key[2] == "epsilon" and ACCOUNTANTS[key].noise],
                         ids="-".join)  # fmt: skip
@pytest.mark.parametrize("target", [0, 1e-300, 1e308, math.inf, math.nan])
def test_an_extreme_target_is_met_or_refused(key: tuple[Any, Any, str], target: float) -> None:
    known = ACCOUNTANTS[key]
    base = {name: BASE.get(name, known.parameters[name].choices[:1]) for name in known.required}
    base = {name: value[0] if isinstance(value, tuple) else value for name, value in base.items()}
    with soon(4 * ENDLESS):
        try:
            solved = solve_for(*key[:2], base, "noise", delta=1e-6, epsilon=target)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert evaluate(*key[:2], solved, 1e-6) <= target


def test_a_rate_that_is_returned_was_evaluated_to_the_last_bit() -> None:
    """Where epsilon is tiny its grids jump: a rate next to the one that was evaluated may exceed the target."""
    asked: list[float] = []

    def epsilon_at(rate: float) -> float:
        asked.append(rate)
        return rate**1.5

    for target in (1e-6, 3.7e-5, 0.0123, 0.9):
        highest = highest_rate(epsilon_at, target)
        assert highest in asked
        assert highest**1.5 <= target < (highest * 1.002) ** 1.5


@pytest.mark.parametrize(("steps", "delta", "mu"), [(100_001, 1e-10 * 1.01, 0.03), (10**6, 1e-9 * 1.01, 1e-4)])
def test_many_steps_in_two_stages(steps: int, delta: float, mu: float) -> None:
    exact = gaussian_epsilon(mu=mu * math.sqrt(steps), delta=delta)
    with soon(ENDLESS):
        epsilon = composed_epsilon(gaussian_pair(mu), steps=steps, delta=delta)
    assert exact * (1 - 1e-4) <= epsilon <= exact * 1.005


def test_two_stages_agree_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate, noise in ((0.05, 4.0), (1e-3, 1.0)):
        pair = affected_roots_pair(affected_roots=3, rate=rate, noise_std=noise)
        two = composed_epsilon(pair, steps=120_000, delta=1e-6)
        monkeypatch.setattr(composition, "LONG", 10**9)
        assert two == pytest.approx(composed_epsilon(pair, steps=120_000, delta=1e-6), rel=1e-3)
        monkeypatch.undo()


def test_public_draws_are_joined_to_the_private_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer pairs of one-batch residual clipping never say less."""
    apart = composed_epsilon(
        residual_one_batch_pair(affected_roots=60, rate=0.05, neighbour_clip=0.3, noise_std=2.0), steps=100, delta=1e-6
    )
    monkeypatch.setattr(double_mixture, "MOST_REVEALED", 16)
    pair = residual_one_batch_pair(affected_roots=60, rate=0.05, neighbour_clip=0.3, noise_std=2.0)
    assert len(pair.pairs) <= 16
    assert apart <= composed_epsilon(pair, steps=100, delta=1e-6) <= 2 * apart


def test_relations_at_noise_that_is_small_use_low_orders() -> None:
    asked = {"nodes": 10**4, "relations": 10**5, "max_degree": 100, "negatives": 4, "q": 0.05, "steps": 10,
             "sigma_over_sensitivity": 0.1, "standard_clipping": True}  # fmt: skip
    assert told(("relational_coupled", "published", "epsilon"), asked) == ""
    assert relational.coupled_rdp(
        nodes=10**4,
        relations=10**5,
        max_degree=100,
        negatives=4,
        rate=0.05,
        noise=0.1,
        orders=(1e6,),
        standard_clipping=True,
    ).tolist() == [math.inf]


@pytest.mark.parametrize("name", ["num_train", "max_steps", "hops", "max_degree", "list_cap"])
@pytest.mark.parametrize("value", [-1, 0, 10**9, 10**18, 10**33])
def test_a_plan_is_asked_within_bounds(name: str, value: int) -> None:
    question: dict[str, Any] = {
        "num_train": 1000, "hops": 1, "max_degree": 3, "list_cap": 3, "epsilon": 4.0, "delta": 1e-6, "max_steps": 3,
    }  # fmt: skip
    with soon(ENDLESS):
        try:
            Question(**{**question, name: value})
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert (name, value) == ("num_train", 10**9)


@pytest.mark.parametrize("name", ["epsilon", "neighbour_clip", "delta"])
@pytest.mark.parametrize("value", [-1.0, 1e-300, 1e308, math.inf, math.nan])
def test_a_plan_is_asked_with_numbers_in_earnest(name: str, value: float) -> None:
    question: dict[str, Any] = {
        "num_train": 1000, "hops": 1, "max_degree": 3, "list_cap": 3, "epsilon": 4.0, "delta": 1e-6, "max_steps": 3,
    }  # fmt: skip
    if value == 1e-300 and name != "epsilon":
        Question(**{**question, name: value})
        return
    with pytest.raises(UserError, match=f"^{name}="):
        Question(**{**question, name: value})
