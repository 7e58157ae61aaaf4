"""Statistics of audits: intervals that cover, bounds that are bounds, tests with level and power."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.privacy.accountants.gaussian import gaussian_delta, gaussian_epsilon
from dpgraph.privacy.auditing import (
    Errors,
    clopper_pearson_upper,
    guesses_either_way,
    inverse_of,
    joint_errors,
    measured_errors,
    one_run_epsilon,
    one_run_guesses,
    one_run_mass,
    one_run_mu,
    one_run_refutes,
    one_run_tail,
    planned_guesses,
    profile_test,
)


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


def test_guesses_are_the_extremes() -> None:
    present = np.array([True, False, True, False])
    assert one_run_guesses(np.array([9.0, 0.1, 0.2, -4.0]), present, 2) == 2
    assert one_run_guesses(np.array([-9.0, 0.1, 0.2, 4.0]), present, 2) == 0
    with pytest.raises(UserError, match=r"^guesses=3: expected an even integer in 2\.\.4$"):
        one_run_guesses(np.zeros(4), present, 3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(wrong: float) -> None:
    """One NaN made every comparison false: a bound of 0, with which any claim passes."""
    with_, without = scores(3.0, 1000, "finite")
    for place in (0, 900):  # of the half that chooses, and of the half that bounds
        broken = with_.copy()
        broken[place] = wrong
        for sides in ((broken, without), (without, broken)):
            with pytest.raises(UserError, match=r"^score=.*: expected finite numbers \(1 of 1000 are not\): mend the"):
                measured_errors(*sides)
        with pytest.raises(UserError, match=r"^score="):
            joint_errors([(with_, without), (broken, without)])
        for count in (one_run_guesses, guesses_either_way):
            with pytest.raises(UserError, match=r"^score="):
                count(broken, without > 0, 100)
    errors = measured_errors(with_, without)
    with pytest.raises(UserError, match=r"^claimed delta=.*: expected finite numbers"):
        profile_test(errors, lambda eps: np.where(eps > 1, wrong, 0.5))


def test_the_direction_of_scores_is_found() -> None:
    """Scores that fall with the record show as much as scores that rise, and a true claim is refuted as rarely."""
    mu, refuted = 1.0, 0
    for index in range(200):
        with_, without = scores(mu, 4000, index)
        reversed_ = measured_errors(-with_, -without)
        assert 0.6 < reversed_.mu < 1.15
        refuted += profile_test(reversed_, lambda eps: gaussian_delta(mu=mu, epsilon=eps)).refuted
    assert refuted <= 6
    generator = numpy_generator("test", "auditing", "reversed")
    present = generator.random(1000) < 0.5
    found = 2.0 * present + generator.standard_normal(1000)
    for sign in (1.0, -1.0):
        assert guesses_either_way(sign * found, present, 500) == one_run_guesses(found, present, 500) > 400


def test_the_first_half_alone_chooses() -> None:
    """Direction and thresholds are those of the first half; where the second one is the other way, nothing is shown."""
    with_, without = scores(3.0, 1000, "halves")
    turned = np.concatenate([with_[:500], -with_[500:]]), np.concatenate([without[:500], -without[500:]])
    assert measured_errors(with_, without).mu > 2
    assert measured_errors(*turned).mu == 0


def response(epsilon: float, delta: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    return np.array([epsilon]), np.array([delta])


def largest_tail(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest P(N >= correct) that the theorem's inequalities admit, by a linear programme over all p."""
    numbers = np.arange(guesses + 1)
    rows, limits = [], []
    for i in range(1, guesses + 1):
        right = np.where(numbers >= i, numbers, 0) / canaries
        wrong = np.where(numbers >= i - 1, guesses - numbers, 0) / canaries
        rows += [right - np.exp(epsilon) * wrong, np.exp(epsilon) * right - wrong]
        limits += [delta, np.exp(epsilon) - (1 - delta)]
    found = linprog(-(numbers >= correct).astype(float), rows, limits, [np.ones(guesses + 1)], [1.0], bounds=(0, 1))
    assert found.status == 0
    return float(-found.fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.0), (1.0, 0.1), (0.0, 0.2)])
@pytest.mark.parametrize(("guesses", "canaries"), [(2, 2), (4, 6), (9, 9), (12, 40)])
def test_the_recursion_solves_the_linear_programme(guesses: int, canaries: int, epsilon: float, delta: float) -> None:
    """For piecewise linear f the inequalities are a linear programme; at its optimum the least total mass is 1."""
    inverse = inverse_of(*response(epsilon, delta))
    for correct in range(1, guesses + 1):
        tail = largest_tail(correct, guesses, canaries, epsilon, delta)
        known = {"correct": correct, "guesses": guesses, "canaries": canaries, "inverse": inverse}
        above = one_run_mass(**known, probability=min(1.0, tail + 1e-6))[0]
        assert tail > 1 - 1e-6 or above > 1
        assert one_run_mass(**known, probability=max(0.0, tail - 1e-6))[0] <= 1


def _coins(size: int) -> np.ndarray:
    return np.array(list(itertools.product([0, 1], repeat=size)))


@cache
def _mechanisms(size: int, epsilon: float, delta: float) -> list[np.ndarray]:
    """(2^size inputs, 2^size outputs) probabilities: each coin answers alone; all are told at once; an exclusive or."""
    coins, p = _coins(size), np.exp(epsilon) / (1 + np.exp(epsilon))
    agree = (coins[:, None] == coins[None]).sum(axis=2)
    alone = p**agree * (1 - p) ** (size - agree)
    shown = delta * (agree == size) + (1 - delta) * alone
    parity = coins.sum(axis=1) % 2
    same = parity[:, None] == parity[None]
    return [alone, shown, np.where(same, p, 1 - p) / 2 ** (size - 1)]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.7, 0.0), (1.5, 0.05), (0.0, 0.3)])
def test_no_attacker_beats_the_bound_on_few_canaries(epsilon: float, delta: float) -> None:
    """Every input, output and guess of three canaries is enumerated; the best guesser of each event is compared."""
    size = 3
    coins, inverse = _coins(size), inverse_of(*response(epsilon, delta))
    places = [chosen for count in (1, 2, 3) for chosen in itertools.combinations(range(size), count)]
    reached = {}
    for table in _mechanisms(size, epsilon, delta):
        joint = table / len(coins)
        for chosen in places:
            guessed = np.array(list(itertools.product([0, 1], repeat=len(chosen))))
            right = (coins[:, None, list(chosen)] == guessed[None]).sum(axis=2)  # (inputs, guesses)
            for correct in range(1, len(chosen) + 1):
                # for each output the guess, whatever it is, that is most often so right
                best = float((joint.T @ (right >= correct)).max(axis=1).sum())
                key = len(chosen), correct
                reached[key] = max(reached.get(key, 0.0), best)
    for (guesses, correct), best in reached.items():
        mass = one_run_mass(correct=correct, guesses=guesses, canaries=size, inverse=inverse, probability=best - 1e-9)[
            0
        ]
        assert mass <= 1, (guesses, correct, best)
    assert reached[1, 1] > 0.5  # and the attackers do better than guessing


@pytest.mark.parametrize(("mu", "share"), [(0.5, 0.45), (1.0, 0.55), (1.5, 0.58), (2.0, 0.55), (4.0, 0.47)])
def test_one_run_mu_is_valid_and_reaches_most(mu: float, share: float) -> None:
    """At 95 %, at most 5 % of 400 runs of known mu are above it; the median is not far below."""
    guesses = planned_guesses(mu=mu, canaries=1000, confidence=0.95)
    correct = []
    for index in range(400):
        generator = numpy_generator("test", "one run", "mu", str(mu), index)
        present = generator.random(1000) < 0.5
        correct.append(one_run_guesses(mu * present + generator.standard_normal(1000), present, guesses))
    shown = {one: one_run_mu(correct=one, guesses=guesses, canaries=1000, confidence=0.95) for one in set(correct)}
    bounds = np.array([shown[one] for one in correct])
    assert (bounds > mu).mean() <= 0.05
    assert share * mu < np.median(bounds) < mu


@pytest.mark.parametrize("mu", [1.0, 2.0, 4.0])
def test_f_dp_shows_at_least_what_steinke_et_al_show(mu: float) -> None:
    """On the same scores and guesses, as an epsilon at 1e-5."""
    for index, guesses in itertools.product(range(3), (100, 300, 1000)):
        generator = numpy_generator("test", "one run", "both", str(mu), index)
        present = generator.random(1000) < 0.5
        correct = one_run_guesses(mu * present + generator.standard_normal(1000), present, guesses)
        known = {"correct": correct, "guesses": guesses, "canaries": 1000, "confidence": 0.95}
        ours = gaussian_epsilon(mu=one_run_mu(**known), delta=1e-5)
        assert ours >= one_run_epsilon(**known, delta=1e-5)


def test_a_claimed_curve_is_refuted_as_its_mu_is() -> None:
    """g from points of a Gaussian's curve refutes almost what the exact one does, and nothing more."""
    epsilons = np.linspace(0.0, 10.0, 200)
    for correct in range(600, 800, 20):
        known = {"correct": correct, "guesses": 1000, "canaries": 1000}
        shown = one_run_mu(**known)
        for mu, expected in ((0.97 * shown, True), (1.001 * shown, False)):
            points = gaussian_delta(mu=mu, epsilon=epsilons)
            assert one_run_refutes(**known, inverse=inverse_of(epsilons, points)) is expected
