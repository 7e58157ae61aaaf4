"""Statistics of audits: intervals that cover, bounds that are bounds, tests with level and power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpgraph.errors import UserError
from dpgraph.privacy.auditing import Errors, clopper_pearson_upper, measured_errors, profile_test
from dpgraph.privacy.gaussian import gaussian_delta, gaussian_epsilon
from dpgraph.randomness import numpy_generator


@pytest.mark.parametrize(("events", "trials"), [(0, 10), (3, 10), (10, 10), (40, 1000)])
def test_clopper_pearson_inverts_the_binomial(events: int, trials: int) -> None:
    """At the upper end p, at most `events` would be seen with probability 1 - confidence exactly."""
    upper = float(clopper_pearson_upper(events, trials, 0.95))
    assert upper == 1.0 if events == trials else binom.cdf(events, trials, upper) == pytest.approx(0.05)


def scores(mu: float, trials: int, *names: str | int) -> tuple[np.ndarray, np.ndarray]:
    generator = numpy_generator("test", "auditing", *names)
    return mu + generator.standard_normal(trials), generator.standard_normal(trials)


def test_exact_errors_give_the_gaussian_curve() -> None:
    """With the true error rates of thresholds of N(mu, 1) against N(0, 1): the best one attains delta(eps), mu."""
    mu, thresholds = 1.3, np.linspace(-6, 8, 4001)
    errors = Errors(norm.sf(thresholds), norm.cdf(thresholds - mu))
    epsilons = np.array([0.0, 0.5, 2.0, 4.0])
    assert errors.delta(epsilons) == pytest.approx(gaussian_delta(mu, epsilons), rel=1e-4)
    assert errors.mu == pytest.approx(mu)
    assert errors.epsilon(1e-3) == pytest.approx(gaussian_epsilon(mu, 1e-3), rel=1e-3)


def test_level_and_power() -> None:
    """A true claim is refuted in at most about 1 % of audits, a claim of 0.7 mu in nearly all."""
    mu, refuted, caught = 1.0, 0, 0
    for index in range(200):
        errors = measured_errors(*scores(mu, 4000, index))
        refuted += profile_test(errors, lambda eps: gaussian_delta(mu, eps)).refuted
        caught += profile_test(errors, lambda eps: gaussian_delta(0.7 * mu, eps)).refuted
        assert errors.mu < 1.15
    assert refuted <= 6  # Bin(200, .01) exceeds 6 with probability 0.004
    assert caught >= 180


@pytest.mark.parametrize("mu", [1e-3, 0.158, 6.0])
def test_true_claims_at_the_ends_of_the_scale(mu: float) -> None:
    """Where the claimed delta rounds to zero, or below, nothing is refuted for that."""
    for index in range(20):
        errors = measured_errors(*scores(mu, 2000, "ends", index))
        assert not profile_test(errors, lambda eps: gaussian_delta(mu, eps)).refuted


def test_both_directions_count() -> None:
    """Without the record the score is a rare low value: only the direction without-against-with sees it."""
    generator = numpy_generator("test", "directions")
    with_ = generator.random(20_000)
    without = np.where(generator.random(20_000) < 0.05, -1.0, generator.random(20_000))
    errors = measured_errors(with_, without)
    assert profile_test(errors, lambda eps: np.full(len(eps), 0.01)).refuted
    assert 0.03 < errors.delta(np.array([3.0]))[0] <= 0.05


def test_scores_that_say_nothing() -> None:
    errors = measured_errors(np.zeros(100), np.zeros(100))
    assert errors.mu == 0
    assert errors.epsilon(1e-3) == 0
    assert np.all(errors.delta(np.array([0.0, 1.0])) == 0)
    with pytest.raises(UserError, match=r"^trials=3: expected an integer >= 4$"):
        measured_errors(np.zeros(3), np.zeros(9))
