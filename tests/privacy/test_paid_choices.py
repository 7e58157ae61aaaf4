"""Clip norms and hyper-parameters that are chosen on private data, and charged to the budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.errors import UserError
from dpgraph.privacy.accountants.composition import composed_epsilon, gaussian_pair
from dpgraph.privacy.accountants.evaluate import evaluate
from dpgraph.privacy.accountants.quantile import PureDp, private_quantile
from dpgraph.randomness import numpy_generator

GRID = np.geomspace(0.01, 100, 9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 200), min_size=1, max_size=12), st.integers(1, 4), st.floats(0.1, 0.9), st.data())
def test_one_record_moves_the_utility_by_at_most_r(
    norms: list[float], affected: int, share: float, data: st.DataObject
) -> None:
    """Exact: probabilities of the exponential mechanism on both sides, R norms changed or gone, ratio <= e^eps."""
    eps = 0.7
    changed = list(norms)
    for _ in range(min(affected, len(norms))):
        position = data.draw(st.integers(0, len(changed) - 1)) if changed else 0
        if changed:
            changed[position] = data.draw(st.floats(0, 200))
    logs = []
    for values in (norms, changed):
        counts = (np.asarray(values)[:, None] <= GRID).sum(axis=0)
        scores = -eps * np.abs(counts - share * len(norms)) / (2 * affected)
        logs.append(scores - np.logaddexp.reduce(scores))
    assert np.max(np.abs(logs[0] - logs[1])) <= eps + 1e-12


def test_the_sampler_draws_from_the_exponential_mechanism() -> None:
    """4000 draws against the probabilities written out, within five standard deviations."""
    norms, eps, affected, share = np.array([0.005, 0.02, 0.3, 2.0, 5.0, np.nan, np.inf]), 2.0, 2, 0.5
    counts = np.array([np.sum(np.isfinite(norms) & (norms <= c)) for c in GRID])
    weights = np.exp(-eps * np.abs(counts - share * 7) / (2 * affected))
    expected = weights / weights.sum()
    generator = numpy_generator("test", "quantile")
    draws = [
        private_quantile(
            norms, GRID, share=share, num_roots=7, affected_roots=affected, eps_quantile=eps, generator=generator
        )
        for _ in range(4000)
    ]
    frequencies = np.array([np.mean(np.isclose(draws, c)) for c in GRID])
    assert np.all(np.abs(frequencies - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000))


def test_a_generous_price_finds_the_quantile() -> None:
    norms = np.linspace(0.001, 50, 5000)
    chosen = private_quantile(
        norms,
        np.arange(1.0, 51.0),
        share=0.75,
        num_roots=5000,
        affected_roots=9,
        eps_quantile=5.0,
        generator=numpy_generator("quantile"),
    )
    assert chosen == pytest.approx(37.5, abs=2)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"grid": np.array([1.0, 1.0])}, "^grid="),
        ({"grid": np.array([0.0, 1.0])}, "^grid="),
        ({"share": 1.0}, "^share=1.0"),
        ({"affected_roots": 0}, "^affected_roots=0"),
        ({"eps_quantile": 0.0}, "^eps_quantile=0.0"),
    ],
)
def test_impossible_quantiles(changes: dict, line: str) -> None:  # type: ignore[type-arg]
    arguments = {"grid": GRID, "share": 0.75, "num_roots": 5, "affected_roots": 3, "eps_quantile": 0.1} | changes
    with pytest.raises(UserError, match=line):
        private_quantile(np.ones(5), generator=numpy_generator("quantile"), **arguments)


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


@pytest.mark.parametrize(
    ("runs", "mean", "expected"), [("geometric", 10, 2.20), ("geometric", 20, 2.39), ("poisson", 10, 2.40)]
)
def test_tuning_costs_about_twice(runs: str, mean: int, expected: float) -> None:
    """Poisson-subsampled Gaussian, q = .01, sigma = 4, T = 10^4, delta = 1e-5: 1.035 for a single run."""
    run = {"q": 0.01, "noise_multiplier": 4, "steps": 10000}
    assert evaluate("paid_tuning", "rigorous", {**run, "runs": runs, "mean_runs": mean}, 1e-5) == pytest.approx(
        expected, abs=0.006
    )
