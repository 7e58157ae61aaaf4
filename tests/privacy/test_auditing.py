"""Statistics of audits: intervals that cover, bounds that are bounds, tests with level and power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpgraph.errors import UserError
from dpgraph.privacy.accountants.gaussian import gaussian_delta, gaussian_epsilon
from dpgraph.privacy.auditing import (
    Errors,
    clopper_pearson_upper,
    joint_errors,
    measured_errors,
    one_run_delta,
    one_run_epsilon,
    one_run_guesses,
    one_run_tail,
    profile_test,
)
from dpgraph.randomness import numpy_generator


@pytest.mark.parametrize(("events", "trials"), [(0, 10), (3, 10), (10, 10), (40, 1000)])
def test_clopper_pearson_inverts_the_binomial(events: int, trials: int) -> None:
    """At the upper end p, at most `events` would be seen with probability 1 - confidence exactly."""
    upper = float(clopper_pearson_upper(events=events, trials=trials, confidence=0.95))
    assert upper == 1.0 if events == trials else binom.cdf(events, trials, upper) == pytest.approx(0.05)


def scores(mu: float, trials: int, *names: str | int) -> tuple[np.ndarray, np.ndarray]:
    generator = numpy_generator("test", "auditing", *names)
    return mu + generator.standard_normal(trials), generator.standard_normal(trials)


def test_exact_errors_give_the_gaussian_curve() -> None:
    """With the true error rates of thresholds of N(mu, 1) against N(0, 1): the best one attains delta(eps), mu."""
    mu, thresholds = 1.3, np.linspace(-6, 8, 4001)
    errors = Errors(norm.sf(thresholds), norm.cdf(thresholds - mu))
    epsilons = np.array([0.0, 0.5, 2.0, 4.0])
    assert errors.delta(epsilons) == pytest.approx(gaussian_delta(mu=mu, epsilon=epsilons), rel=1e-4)
    assert errors.mu == pytest.approx(mu)
    assert errors.epsilon(1e-3) == pytest.approx(gaussian_epsilon(mu=mu, delta=1e-3), rel=1e-3)


def test_level_and_power() -> None:
    """A true claim is refuted in at most about 1 % of audits, a claim of 0.7 mu in nearly all."""
    mu, refuted, caught = 1.0, 0, 0
    for index in range(200):
        errors = measured_errors(*scores(mu, 4000, index))
        refuted += profile_test(errors, lambda eps: gaussian_delta(mu=mu, epsilon=eps)).refuted
        caught += profile_test(errors, lambda eps: gaussian_delta(mu=0.7 * mu, epsilon=eps)).refuted
        assert errors.mu < 1.15
    assert refuted <= 6  # Bin(200, .01) exceeds 6 with probability 0.004
    assert caught >= 180


@pytest.mark.parametrize("mu", [1e-3, 0.158, 6.0])
def test_true_claims_at_the_ends_of_the_scale(mu: float) -> None:
    """Where the claimed delta rounds to zero, or below, nothing is refuted for that."""
    for index in range(20):
        errors = measured_errors(*scores(mu, 2000, "ends", index))
        assert not profile_test(errors, lambda eps: gaussian_delta(mu=mu, epsilon=eps)).refuted


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


def test_several_attackers_share_the_level() -> None:
    """Joint bounds hold what each shows, a little less; useless attackers do not refute a true claim."""
    mu, useless = 1.0, (np.zeros(4000), np.zeros(4000))
    refuted = 0
    for index in range(100):
        good = scores(mu, 4000, "joint", index)
        errors = joint_errors([useless, good, useless])
        refuted += profile_test(errors, lambda eps: gaussian_delta(mu=mu, epsilon=eps)).refuted
        assert 0.6 < errors.mu <= measured_errors(*good).mu + 0.1
    assert refuted <= 4


def test_one_run_bound_by_hand() -> None:
    """m = r = 2, both right: W ~ Bin(2, p), p = e/(1+e): beta = p^2, slope = 4 max(P(W=1), P(W<=1)/2)."""
    p = np.e / (1 + np.e)
    beta, slope = one_run_tail(correct=2, guesses=2, canaries=2, epsilon=np.array([1.0]))
    assert beta[0] == pytest.approx(p**2)
    assert slope[0] == pytest.approx(4 * max(2 * p * (1 - p), (1 - p**2) / 2))
    assert one_run_tail(correct=0, guesses=2, canaries=2, epsilon=np.array([1.0])) == (
        pytest.approx([1.0]),
        pytest.approx([0.0]),
    )


def test_one_run_level() -> None:
    """Randomised response at epsilon = 1 is refuted at epsilon = 1 in at most about 5 % of runs, at 0.5 in most."""
    generator, p = numpy_generator("test", "one run"), np.e / (1 + np.e)
    correct = generator.binomial(300, p, size=300)
    values, where = np.unique(correct, return_inverse=True)
    bounds = np.array(
        [one_run_epsilon(correct=int(v), guesses=300, canaries=300, delta=0.0, confidence=0.95) for v in values]
    )[where]
    assert (bounds > 1.0).mean() <= 0.09
    assert (bounds > 0.5).mean() > 0.9


@pytest.mark.parametrize(("mu", "expected"), [(0.5, 0.76), (1.0, 1.45), (1.75, 2.82), (2.0, 3.15)])
def test_one_run_on_a_gaussian(mu: float, expected: float) -> None:
    """m = 1000, delta = 1e-5, 95 %, 300 guesses: true epsilons 1.99, 4.38, 8.5, 10.0 show about these (simulated)."""
    bounds = []
    for index in range(40):
        generator = numpy_generator("test", "one run", str(mu), index)
        present = generator.random(1000) < 0.5
        correct = one_run_guesses(mu * present + generator.standard_normal(1000), present, 300)
        bounds.append(one_run_epsilon(correct=correct, guesses=300, canaries=1000, delta=1e-5, confidence=0.95))
    assert np.median(bounds) == pytest.approx(expected, abs=0.25)
    assert max(bounds) < gaussian_epsilon(mu=mu, delta=1e-5)


def test_one_run_curve_agrees_with_its_epsilon() -> None:
    epsilon = one_run_epsilon(correct=180, guesses=200, canaries=1000, delta=1e-5)
    at = one_run_delta(
        correct=180, guesses=200, canaries=1000, epsilon=np.array([epsilon, epsilon - 0.05, epsilon + 0.05])
    )
    assert at[0] == pytest.approx(1e-5, rel=1e-4)
    assert at[2] < 1e-5 < at[1]
    assert one_run_delta(correct=100, guesses=200, canaries=1000, epsilon=np.array([0.0, 1.0])).tolist() == [0.0, 0.0]
    assert (
        one_run_epsilon(correct=180, guesses=200, canaries=1000, delta=1e-3) == 0.0
    )  # 2 m delta leaves nothing to see


def test_guesses_are_the_extremes() -> None:
    present = np.array([True, False, True, False])
    assert one_run_guesses(np.array([9.0, 0.1, 0.2, -4.0]), present, 2) == 2
    assert one_run_guesses(np.array([-9.0, 0.1, 0.2, 4.0]), present, 2) == 0
    with pytest.raises(UserError, match=r"^guesses=3: expected an even integer in 2\.\.4$"):
        one_run_guesses(np.zeros(4), present, 3)
