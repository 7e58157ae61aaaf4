"""Clip norms and hyper-parameters that are chosen on private data, and charged to the budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpgraph.privacy.accountants.composition import PureDp, composed_epsilon, gaussian_pair
from dpgraph.privacy.accountants.evaluate import evaluate


def test_the_price_is_charged_and_no_more_than_the_price() -> None:
    trees = {"affected_roots": 9, "q": 0.1, "sigma_over_clip": 20.0, "steps": 50}
    free = evaluate("double_mixture", "rigorous", trees, 1e-5)
    for price in (0.05, 0.3, 1.0):
        paid = evaluate("private_quantile", "rigorous", {**trees, "eps_quantile": price}, 1e-5)
        assert free < paid <= (free + price) * 1.002


def test_pure_dp_alone_and_composed() -> None:
    """Alone the pair is (eps, 0)-DP; after a Gaussian of almost no loss nothing but eps is left."""
    epsilon = composed_epsilon(gaussian_pair(1e-4), steps=1, delta=1e-9, once=PureDp(0.5))
    assert epsilon == pytest.approx(0.5, rel=5e-3)


def test_renyi_divergence_of_randomised_response() -> None:
    p = np.array([0.9, 0.1])
    orders = np.array([1.5, 2.0, 30.0])
    expected = [np.log(np.sum(p**a * p[::-1] ** (1 - a))) / (a - 1) for a in orders]
    np.testing.assert_allclose(PureDp(math.log(9)).rdp(orders), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("runs", "mean", "expected"), [("geometric", 10, 2.20), ("geometric", 20, 2.39), ("poisson", 10, 2.40)]
)
def test_tuning_costs_about_twice(runs: str, mean: int, expected: float) -> None:
    """Poisson-subsampled Gaussian, q = .01, sigma = 4, T = 10^4, delta = 1e-5: 1.035 for a single run."""
    run = {"q": 0.01, "noise_multiplier": 4, "steps": 10000}
    assert evaluate("paid_tuning", "rigorous", {**run, "runs": runs, "mean_runs": mean}, 1e-5) == pytest.approx(
        expected, abs=0.006
    )
