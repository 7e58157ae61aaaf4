"""The planner's front, and solving for noise, steps and rate by name."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dpgraph.core.errors import UserError
from dpgraph.families.trees import planner
from dpgraph.families.trees.planner import Question, TrainingPlan, pareto, plan_table, plans
from dpgraph.privacy.accountants.evaluate import evaluate, solve_for
from dpgraph.privacy.cache import Cache

QUESTION: dict[str, Any] = {
    "num_train": 400, "hops": 1, "max_degree": 2, "list_cap": 2, "epsilon": 3.0, "delta": 1e-4, "max_steps": 20,
}  # fmt: skip


@pytest.mark.parametrize("ratio", [None, 0.2])
def test_every_plan_meets_the_target_and_none_is_beaten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: float | None
) -> None:
    monkeypatch.setattr(planner, "RATES", 2)
    monkeypatch.setattr(planner, "STEPS", 2)
    question = Question(**QUESTION, neighbour_clip=ratio)
    front = plans(question, Cache(tmp_path))
    assert front
    for plan in front:
        mechanism = question.mechanism(rate=plan.sampling_rate, steps=plan.steps).with_noise(plan.noise_multiplier)
        assert mechanism.rigorous().epsilon == pytest.approx(plan.epsilon)
        assert plan.epsilon <= 3.0
        assert plan.steps <= 20
    assert plans(question, Cache(tmp_path)) == front
    assert len(list(tmp_path.iterdir())) == len(planner.candidates(question))
    lines = plan_table(question, front).splitlines()
    assert len(lines) == 2 + len(front)
    assert "5 affected roots" in lines[0]
    assert ("C_n / C_s = 0.2" in lines[0]) == ("sigma/C_s" in lines[1]) == (ratio is not None)


def test_residual_clipping_signals_more_than_one_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """At C_n = 0 it is DP-MLP, at C_n = C_s every neighbour and the own gradient are charged again."""
    monkeypatch.setattr(planner, "RATES", 2)
    monkeypatch.setattr(planner, "STEPS", 1)
    noise = [
        [plan.noise_multiplier for plan in plans(Question(**QUESTION, neighbour_clip=ratio))]
        for ratio in (0.0, 0.2, None, 1.0)
    ]
    assert all(a < b for low, high in pairwise(noise) for a, b in zip(low, high, strict=True))


def test_the_front_by_hand() -> None:
    def plan(rate: float, steps: int, noise: float) -> TrainingPlan:
        return TrainingPlan(sampling_rate=rate, steps=steps, noise_multiplier=noise, epsilon=1.0, num_train=100)

    good = plan(0.1, 100, 5.0)
    noisier = plan(0.1, 100, 6.0)
    dearer = plan(0.2, 100, 10.0)  # the same signal at twice the epochs
    shorter = plan(0.1, 25, 2.5)  # the same signal with fewer steps, so cheaper
    stronger = plan(0.2, 100, 9.0)
    assert pareto([noisier, good, dearer, shorter, stronger]) == [good, shorter, stronger]
    assert good.merits == {"noise_per_step": 0.5, "total_signal": 20.0, "epochs": 10.0}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"max_steps": 0}, r"^max_steps=0: expected an integer from 1 to 1e\+06$"),
        ({"epsilon": 0.0}, r"^epsilon=0.0: expected a number from 1e-09 to 1e\+06$"),
        ({"delta": 1 / 400}, r"^delta=0.0025: expected a number < 1 / num_roots"),
        ({"max_degree": None}, "^max_degree=None"),
        ({"num_train": 0}, r"^num_train=0: expected an integer from 1 to 1e\+09$"),
        ({"neighbour_clip": -1.0}, r"^neighbour_clip=-1.0: expected a number from 0 to 1e\+06$"),
    ],
)
def test_impossible_questions(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=line):
        Question(**{**QUESTION, **changes})


@pytest.mark.parametrize(
    ("name", "mode", "parameters", "unknown", "open_", "step"),
    [
        ("double_mixture", "rigorous", {"affected_roots": 3, "q": 0.1, "steps": 20}, "noise", "sigma_over_clip", -2e-3),
        ("double_mixture", "rigorous", {"affected_roots": 3, "q": 0.1, "sigma_over_clip": 9.0}, "steps", "steps", 1),
        ("double_mixture", "rigorous", {"affected_roots": 3, "sigma_over_clip": 9.0, "steps": 20}, "rate", "q", 2e-3),
        ("moments", "published", {"q": 0.1, "steps": 300}, "noise", "noise_multiplier", -2e-3),
        (
            "residual_clipping", "rigorous",
            {"affected_roots": 5, "neighbour_to_self_clip": 0.1, "sigma_over_self_clip": 4.0, "steps": 20},
            "rate", "q_self", 2e-3,
        ),
        (
            "pate_confident_gnmax", "rigorous", {"checks": 90, "sigma_threshold": 50, "sigma_votes": 40},
            "steps", "answers", 1,
        ),
    ],
)  # fmt: skip
def test_solved_to_the_private_side_of_the_target_and_close_to_it(
    name: str, mode: Any, parameters: dict[str, Any], unknown: Any, open_: str, step: float
) -> None:
    solved = solve_for(name, mode, parameters, unknown, delta=1e-5, epsilon=2.0)
    assert evaluate(name, mode, solved, 1e-5) <= 2.0
    value = solved[open_]
    further = value + step if isinstance(step, int) else value * (1 + step)
    assert evaluate(name, mode, {**solved, open_: further}, 1e-5) > 2.0


def test_what_cannot_be_solved_is_refused() -> None:
    with pytest.raises(UserError, match=r"^solve=rate: expected one of noise, steps$"):
        solve_for("gaussian", "rigorous", {}, "rate", delta=1e-5, epsilon=1.0)
    with pytest.raises(UserError, match=r"^solve=noise: expected a mechanism with noise$"):
        solve_for("appr_exponential", "rigorous", {}, "noise", delta=1e-5, epsilon=1.0)
    with pytest.raises(UserError, match=r"^epsilon=0.0: expected a finite number >= 1e-09$"):
        solve_for("moments", "published", {}, "noise", delta=1e-5, epsilon=0.0)
    trees = {"affected_roots": 3, "sigma_over_clip": 1e-2, "steps": 9}
    with pytest.raises(UserError, match=r"^epsilon=0.01: expected a target >= .*, the epsilon at the rate 1e-08$"):
        solve_for("double_mixture", "rigorous", trees, "rate", delta=1e-12, epsilon=0.01)
    assert (
        solve_for("double_mixture", "rigorous", {**trees, "sigma_over_clip": 1e4}, "rate", delta=1e-5, epsilon=2.0)["q"]
        == 1.0
    )
