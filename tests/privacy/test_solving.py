"""The solver on functions whose crossing is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.privacy.solving import LOWEST_RATE, highest_rate, least_noise, solved


def epsilon(noise: float, scale: float = 1.0) -> float:
    """Steep around one clip norm and like 1 / noise beyond, as accountants are; infinite below, 0 far out."""
    x = noise / scale
    return math.inf if x < 0.05 else 0.0 if x > 1e5 else 3 / x + 4 / x**4


@settings(max_examples=60, deadline=None, derandomize=True)
@given(target=st.floats(0.01, 300), scale=st.floats(0.3, 200), guess=st.one_of(st.none(), st.floats(0.01, 1e4)))
def test_the_least_noise_of_four_digits(target: float, scale: float, guess: float | None) -> None:
    asked = []

    def epsilon_at(noise: float) -> float:
        asked.append(noise)
        return epsilon(noise, scale)

    least = solved("noise", epsilon_at, target=target, guess=guess)
    assert least == float(f"{least:.4g}")
    assert epsilon(least, scale) <= target
    below = least - 10.0 ** (math.floor(math.log10(least)) - 3)
    assert epsilon(below, scale) > target
    assert len(asked) <= 24


def test_a_near_guess_saves_evaluations() -> None:
    asked: list[float] = []
    least = least_noise(lambda noise: asked.append(noise) or epsilon(noise), target=4.0, guess=1.0)
    assert epsilon(least) <= 4 < epsilon(least - 1e-3)
    assert len(asked) <= 6
    assert len(set(asked)) == len(asked)  # no point is tried twice


@settings(max_examples=40, deadline=None, derandomize=True)
@given(target=st.floats(0.01, 30))
def test_the_highest_rate_of_four_digits(target: float) -> None:
    highest = highest_rate(lambda rate: 40 * rate + rate**2, target)
    assert highest == float(f"{highest:.4g}")
    assert LOWEST_RATE <= highest <= 1
    assert 40 * highest + highest**2 <= target
    above = highest + 10.0 ** (math.floor(math.log10(highest)) - 3)
    assert above > 1 or 40 * above + above**2 > target


def test_a_jump_over_the_target_is_bracketed() -> None:
    """A function that is constant but for one step: every secant is useless."""
    assert least_noise(lambda noise: 5.0 if noise < 7.654 else 1.0, target=2.0) == pytest.approx(7.654, rel=1e-12)
