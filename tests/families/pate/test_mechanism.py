"""Confident-GNMax as a mechanism: Proposition 2 of the thesis, and the same composition by another library."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from dpgraph.core.errors import UserError
from dpgraph.families.pate.mechanism import ConfidentGnmax
from dpgraph.privacy.calibration import solve
from dpgraph.privacy.mechanisms.base import mechanism_from
from dpgraph.privacy.solving import DIGITS


def gnmax(**changes):
    settings = {
        "num_roots": 60_000, "delta": 1e-5, "steps": 100, "noise_multiplier": 100.0, "max_checks": 9000,
        "max_answers": 2200, "check_ratio": 1.5,
    }  # fmt: skip
    return ConfidentGnmax(**{**settings, **changes})


@pytest.mark.parametrize(
    ("checks", "answers", "ratio", "sigma"), [(9000, 2200, 1.5, 100.0), (2200, 2200, 4.0, 60.0), (50, 1, 0.5, 20.0)]
)
def test_rigorous_epsilon_is_that_of_the_library(checks, answers, ratio, sigma):
    """Privacy loss distributions of each Gaussian, composed; sensitivities 1 and sqrt 2."""
    found = gnmax(max_checks=checks, max_answers=answers, check_ratio=ratio, noise_multiplier=sigma)
    library = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    library.compose(dp_accounting.GaussianDpEvent(ratio * sigma), checks)
    library.compose(dp_accounting.GaussianDpEvent(sigma / math.sqrt(2)), answers)
    assert found.rigorous().epsilon == pytest.approx(library.get_epsilon(1e-5), rel=2e-3)


def test_published_epsilon_is_the_minimum_over_orders():
    """eps = min over lambda of lambda a + ln(1 / delta) / (lambda - 1), a = M / (2 sigma_1^2) + M_l / sigma_2^2."""
    found = gnmax()
    orders = np.exp(np.linspace(1e-4, 8, 400_000))
    cost = 9000 / (2 * 150**2) + 2200 / 100**2
    assert found.published().epsilon == pytest.approx((orders * cost + math.log(1e5) / (orders - 1)).min(), rel=1e-6)
    assert found.rdp((2.0,))[0] == pytest.approx(2 * cost)
    assert found.rigorous().epsilon < found.published().epsilon


@pytest.mark.parametrize(("target", "mode"), [(4.05, "published"), (5.04, "published"), (4.05, "rigorous")])
def test_noise_for_the_epsilons_of_table_3_1(target, mode):
    found = solve(gnmax(noise_multiplier=None), mode, epsilon=target)
    assert getattr(found, mode)().epsilon <= target
    less = found.noise_multiplier * (1 - 2 * 10.0 ** (1 - DIGITS))
    assert getattr(found.with_noise(less), mode)().epsilon > target
    # printed epsilons need at least as much noise as answers alone do
    assert target != 4.05 or mode != "published" or found.noise_multiplier > 85.0


@pytest.mark.parametrize("changed", [{"max_checks": 9001}, {"max_answers": 2201}, {"check_ratio": 1.49}])
def test_more_of_anything_costs_more(changed):
    assert gnmax(**changed).rigorous().epsilon > gnmax().rigorous().epsilon
    assert gnmax(**changed).published().epsilon > gnmax().published().epsilon


def test_steps_of_the_student_are_free_and_the_first_pays_for_all():
    assert gnmax(steps=10_000).rigorous().epsilon == gnmax().rigorous().epsilon
    assert gnmax().at_step(1).rigorous.epsilon == gnmax().rigorous().epsilon
    assert gnmax().at_step(0).rigorous.epsilon == 0


def test_what_it_states():
    guarantee = gnmax().rigorous()
    assert (guarantee.relation, guarantee.scope) == ("training-record", "parameters")
    assert any("at most 9000 checks and 2200 answers" in text for text in guarantee.assumptions)
    assert mechanism_from(ConfidentGnmax, gnmax().model_dump(mode="json")) == gnmax()
    checks, answers = gnmax().procedure((1.0,)).releases
    assert (checks.noise, checks.sensitivity, checks.count) == (150.0, 1.0, 9000)
    assert (answers.noise, answers.sensitivity, answers.count) == (100.0, math.sqrt(2), 2200)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"max_checks": 0}, "max_checks=0: expected an integer >= 1"),
        ({"max_answers": 9001}, "max_answers=9001: expected at most max_checks = 9000"),
        ({"check_ratio": 0.0}, "check_ratio=0.0: expected a number from 0.001 to 1000"),
        ({"delta": 1e-4}, "delta=0.0001: expected a number < 1 / num_roots"),
    ],
)
def test_mistakes_are_one_line(changed, line):
    with pytest.raises(UserError, match=line.replace("(", r"\(")):
        gnmax(**changed)
