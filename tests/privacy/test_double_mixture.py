"""The double mixture against the library, quadrature, Monte Carlo, brute force in two dimensions, and itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from dpgraph.privacy.accountants import double_mixture
from dpgraph.privacy.accountants.composition import composed_delta, composed_epsilon
from dpgraph.privacy.accountants.double_mixture import (
    DoubleMixtureGaussianPrivacyLoss,
    Mixture,
    MixturePair,
    affected_roots_pair,
    residual_one_batch_pair,
    residual_pair,
)
from dpgraph.privacy.accountants.renyi import theorem1_epsilon


def library_epsilon(rate: float, noise: float, steps: int, delta: float, relation: NeighboringRelation) -> float:
    distribution = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=1e-4, neighboring_relation=relation
    )
    return distribution.self_compose(steps).get_epsilon_for_delta(delta)


@pytest.mark.parametrize("own", [True, False], ids=["add-or-remove", "replace"])
@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [(0.01, 1.0, 100, 1e-5), (0.1, 4.0, 300, 1e-6), (1.0, 20.0, 50, 1e-5), (1e-3, 0.7, 1000, 1e-6)],
)
def test_one_affected_root_is_the_librarys_poisson_gaussian(
    rate: float, noise: float, steps: int, delta: float, own: bool
) -> None:
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE if own else NeighboringRelation.REPLACE_ONE
    expected = library_epsilon(rate, noise, steps, delta, relation)
    assert composed_epsilon(
        affected_roots_pair(affected_roots=1, rate=rate, noise_std=noise, own_root_removed=own),
        steps=steps,
        delta=delta,
    ) == pytest.approx(expected, rel=1e-3)


def test_one_sided_mixture_is_the_librarys_mixture() -> None:
    counts = np.arange(4)
    probabilities = binom.pmf(counts, 3, 0.2)
    expected = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        2.0, counts.tolist(), probabilities.tolist(), value_discretization_interval=1e-2
    )
    epsilons = np.array([-0.3, 0.0, 0.2, 0.7, 2.0])
    upper, lower = Mixture.binomial(count=3, rate=0.2), Mixture.from_terms([1.0], [0.0])
    forward = DoubleMixtureGaussianPrivacyLoss(upper, lower, noise_std=2.0).get_delta_for_epsilon(epsilons)
    backward = DoubleMixtureGaussianPrivacyLoss(lower, upper, noise_std=2.0).get_delta_for_epsilon(epsilons)
    both = np.maximum(forward, backward)
    np.testing.assert_allclose(both, [expected.get_delta_for_epsilon(e) for e in epsilons], rtol=1e-4)


def density(shifts: np.ndarray, weights: np.ndarray, noise: float, x: np.ndarray) -> np.ndarray:
    return (weights * norm.pdf(x[:, None], shifts, noise)).sum(1)


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.5, 3.0])
def test_divergence_of_one_step_against_quadrature(epsilon: float) -> None:
    roots, rate, noise = 6, 0.3, 2.5
    x = np.linspace(-60, 60, 400_001)
    a = density(np.arange(roots + 1), binom.pmf(np.arange(roots + 1), roots, rate), noise, x)
    b = density(-np.arange(roots), binom.pmf(np.arange(roots), roots - 1, rate), noise, x)
    expected = max(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x) for p, q in ((a, b), (b, a)))
    assert affected_roots_pair(affected_roots=roots, rate=rate, noise_std=noise).delta(np.array([epsilon]))[
        0
    ] == pytest.approx(expected, rel=1e-6)


def test_divergence_of_many_steps_against_monte_carlo() -> None:
    """delta(eps) = E_A (1 - exp(eps - L))_+ with L the sum of the steps' losses; 99.99 % interval."""
    roots, rate, noise, steps, trajectories = 4, 0.25, 8.0, 16, 200_000
    generator = np.random.default_rng(5)
    pair = affected_roots_pair(affected_roots=roots, rate=rate, noise_std=noise)
    for forward, epsilon in ((True, 0.5), (False, 0.5), (True, 1.5)):
        count, sign = (roots, 1) if forward else (roots - 1, -1)
        x = sign * generator.binomial(count, rate, (trajectories, steps)) + noise * generator.normal(
            size=(trajectories, steps)
        )
        grid = np.linspace(x.min() - 1, x.max() + 1, 20_001)
        a = density(np.arange(roots + 1), binom.pmf(np.arange(roots + 1), roots, rate), noise, grid)
        b = density(-np.arange(roots), binom.pmf(np.arange(roots), roots - 1, rate), noise, grid)
        loss = sign * np.interp(x, grid, np.log(a / b)).sum(1)
        sample = np.maximum(-np.expm1(epsilon - loss), 0)
        margin = 4 * sample.std() / math.sqrt(trajectories)
        pmf = pair.losses[0 if forward else 1].pessimistic_pmf(discretization=1e-3, tail_mass=1e-12).self_compose(steps)
        assert pmf.get_delta_for_epsilon(epsilon) == pytest.approx(sample.mean(), abs=margin)


@pytest.mark.parametrize("seed", range(20))
def test_composed_curve_against_monte_carlo_on_random_settings(seed: int) -> None:
    """Both directions of `composed_delta` at three epsilons; losses from densities written out; 99.99 % interval."""
    generator = np.random.default_rng(seed)
    roots, steps = int(generator.integers(1, 9)), int(generator.integers(1, 25))
    rate = float(generator.uniform(0.02, 1))
    noise = float(generator.uniform(1.0, 3.0)) * roots * np.sqrt(rate * steps)
    trajectories, counts = 20_000, (roots, roots - 1)
    epsilons = np.array([0.1, 0.5, 1.0])
    settings = []
    for side, sign in ((0, 1), (1, -1)):
        drawn = generator.binomial(counts[side], rate, (trajectories, steps))
        x = sign * drawn + noise * generator.normal(size=(trajectories, steps))
        grid = np.linspace(x.min() - 1, x.max() + 1, 4001)
        a = density(np.arange(roots + 1), binom.pmf(np.arange(roots + 1), roots, rate), noise, grid)
        b = density(-np.arange(roots), binom.pmf(np.arange(roots), roots - 1, rate), noise, grid)
        loss = sign * np.interp(x, grid, np.log(a / b)).sum(1)
        sample = np.maximum(-np.expm1(epsilons[:, None] - loss), 0)
        settings.append((sample.mean(1), 4 * sample.std(1) / math.sqrt(trajectories) + 1e-4))
    claimed = composed_delta(
        affected_roots_pair(affected_roots=roots, rate=rate, noise_std=noise), steps=steps, epsilons=epsilons
    )
    best = np.argmax([mean for mean, _ in settings], axis=0)
    for index, side in enumerate(best):
        mean, margin = settings[side][0][index], settings[side][1][index]
        assert claimed[index] == pytest.approx(mean, abs=margin)


@pytest.mark.parametrize("seed", range(20))
def test_residual_clipping_against_monte_carlo_on_random_settings(seed: int) -> None:
    """Two independent batches drawn as described, losses from the densities written out; 99.99 % interval."""
    generator = np.random.default_rng(100 + seed)
    roots, steps = int(generator.integers(1, 8)), int(generator.integers(1, 25))
    own, second, clip = generator.uniform(0.05, 1), generator.uniform(0.05, 1), generator.uniform(0.02, 1.2)
    noise = float(generator.uniform(1.0, 3.0)) * (1 + roots * clip) * np.sqrt(max(own, second) * steps)
    trajectories, epsilons = 20_000, np.array([0.1, 0.5, 1.0])

    def law(count: int, with_own: bool) -> tuple[np.ndarray, np.ndarray]:
        drawn = np.arange(count + 1)
        weights, shifts = binom.pmf(drawn, count, second), clip * drawn
        if with_own:
            weights = np.concatenate([weights * (1 - own), weights * own])
            shifts = np.concatenate([shifts, shifts + 1])
        return weights, shifts

    settings = []
    for sign, count in ((1, roots), (-1, roots - 1)):
        shift = clip * generator.binomial(count, second, (trajectories, steps)).astype(float)
        if sign == 1:
            shift += generator.random((trajectories, steps)) < own
        x = sign * shift + noise * generator.normal(size=(trajectories, steps))
        grid = np.linspace(x.min() - 1, x.max() + 1, 4001)
        (wa, sa), (wb, sb) = law(roots, True), law(roots - 1, False)
        loss = sign * np.interp(x, grid, np.log(density(sa, wa, noise, grid) / density(-sb, wb, noise, grid))).sum(1)
        sample = np.maximum(-np.expm1(epsilons[:, None] - loss), 0)
        settings.append((sample.mean(1), 4 * sample.std(1) / math.sqrt(trajectories) + 1e-4))
    claimed = composed_delta(
        residual_pair(affected_roots=roots, self_rate=own, neighbour_rate=second, neighbour_clip=clip, noise_std=noise),
        steps=steps,
        epsilons=epsilons,
    )
    best = np.argmax([mean for mean, _ in settings], axis=0)
    for index, side in enumerate(best):
        assert claimed[index] == pytest.approx(settings[side][0][index], abs=settings[side][1][index])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_configuration_in_the_plane_beats_the_collinear_pair(seed: int) -> None:
    """The theorem itself: sums of clipped vectors in the plane, on a fine grid, for several kappa."""
    generator = np.random.default_rng(seed)
    roots, rate, noise = int(generator.integers(1, 4)), generator.uniform(0.1, 0.9), generator.uniform(0.7, 2.0)

    def vectors(count: int) -> np.ndarray:
        angles = generator.uniform(0, 2 * math.pi, count)
        return generator.uniform(0.2, 1, count)[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)

    axis = np.linspace(-10, 10, 241)
    cell = (axis[1] - axis[0]) ** 2
    points = np.stack(np.meshgrid(axis, axis), -1)

    def mixture(terms: np.ndarray) -> np.ndarray:
        total = np.zeros(points.shape[:2])
        for mask in range(1 << len(terms)):
            drawn = np.array([(mask >> i) & 1 for i in range(len(terms))])
            mean = drawn @ terms if len(terms) else np.zeros(2)
            weight = rate ** drawn.sum() * (1 - rate) ** (len(terms) - drawn.sum())
            total += weight * np.exp(-((points - mean) ** 2).sum(-1) / (2 * noise**2)) / (2 * math.pi * noise**2)
        return total

    a, b = mixture(vectors(roots)), mixture(vectors(roots - 1))
    epsilons = np.array([-1.0, 0.0, 0.5, 1.5])
    bound = affected_roots_pair(affected_roots=roots, rate=rate, noise_std=noise).delta(epsilons)
    for epsilon, most in zip(epsilons, bound):
        for p, q in ((a, b), (b, a)):
            assert np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell <= most + 1e-6


@settings(max_examples=6, deadline=None)
@example(12, 0.59765625, 4.0, 120, 1e-3)  # an epsilon above 709, whose exponential overflows
@given(
    st.integers(1, 12), st.floats(0.02, 0.6), st.floats(4, 40), st.integers(1, 200), st.sampled_from([1e-3, 1e-5, 1e-7])
)
def test_epsilon_moves_the_right_way(roots: int, rate: float, noise: float, steps: int, delta: float) -> None:
    def epsilon(roots: int = roots, rate: float = rate, noise: float = noise, steps: int = steps) -> float:
        return composed_epsilon(
            affected_roots_pair(affected_roots=roots, rate=rate, noise_std=noise), steps=steps, delta=delta
        )

    here, slack = epsilon(), 1 + 1e-3
    assert epsilon(roots=roots + 1) * slack >= here
    assert epsilon(rate=min(1.0, rate * 1.3)) * slack >= here
    assert epsilon(steps=2 * steps) * slack >= here
    assert epsilon(noise=noise * 1.3) <= here * slack + 1e-9


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 7), st.floats(0.02, 0.3), st.floats(0.8, 5), st.integers(1, 800))
def test_at_the_same_noise_it_is_below_theorem_1(degree: int, rate: float, noise: float, steps: int) -> None:
    num_roots, roots = 5000, degree + 1
    delta = 1 / (10 * num_roots)
    published = theorem1_epsilon(
        num_roots=num_roots,
        batch_size=round(rate * num_roots),
        affected_roots=roots,
        noise_multiplier=noise,
        steps=steps,
        delta=delta,
    )
    rate = round(rate * num_roots) / num_roots
    assert (
        composed_epsilon(
            affected_roots_pair(affected_roots=roots, rate=rate, noise_std=2 * roots * noise), steps=steps, delta=delta
        )
        <= published
    )


@pytest.mark.parametrize(
    ("pair", "steps"),
    [
        (affected_roots_pair(affected_roots=15, rate=0.11, noise_std=32.0), 500),
        (affected_roots_pair(affected_roots=8, rate=0.11, noise_std=16.0), 3000),
        (affected_roots_pair(affected_roots=1, rate=1e-3, noise_std=0.7), 1000),
        (residual_pair(affected_roots=15, self_rate=0.1, neighbour_rate=0.1, neighbour_clip=0.1, noise_std=2.6), 100),
        (residual_pair(affected_roots=25, self_rate=0.1, neighbour_rate=0.3, neighbour_clip=0.05, noise_std=4.0), 200),
        (
            residual_pair(affected_roots=15, self_rate=1e-3, neighbour_rate=1e-3, neighbour_clip=0.1, noise_std=0.6),
            1000,
        ),
        (residual_one_batch_pair(affected_roots=9, rate=0.1, neighbour_clip=0.1, noise_std=2.6), 100),
    ],
)
def test_a_grid_of_half_the_size_agrees(pair: MixturePair, steps: int) -> None:
    coarse, fine = (composed_epsilon(pair, steps=steps, delta=1e-6, tolerance=tolerance) for tolerance in (5e-4, 5e-5))
    assert fine <= coarse * (1 + 1e-9)
    assert fine == pytest.approx(coarse, rel=5e-3)


def test_residual_pair_has_its_two_special_cases() -> None:
    arguments = {"affected_roots": 9, "self_rate": 0.2, "neighbour_rate": 0.1}
    mlp = residual_pair(**arguments, neighbour_clip=0.0, noise_std=3.0)
    assert composed_epsilon(mlp, steps=50, delta=1e-5) == pytest.approx(
        composed_epsilon(affected_roots_pair(affected_roots=1, rate=0.2, noise_std=3.0), steps=50, delta=1e-5), rel=1e-9
    )
    no_self = residual_pair(affected_roots=9, self_rate=0.0, neighbour_rate=0.1, neighbour_clip=1.0, noise_std=20.0)
    assert composed_epsilon(no_self, steps=50, delta=1e-5) == pytest.approx(
        composed_epsilon(affected_roots_pair(affected_roots=9, rate=0.1, noise_std=20.0), steps=50, delta=1e-5),
        rel=1e-9,
    )


def test_one_batch_for_both_terms_is_worse_than_the_two_batch_pair() -> None:
    """Revealing how many affected roots were drawn, the best known bound for one batch, needs more noise."""
    two = composed_epsilon(
        residual_pair(affected_roots=9, self_rate=0.2, neighbour_rate=0.2, neighbour_clip=0.2, noise_std=3.0),
        steps=50,
        delta=1e-5,
    )
    assert (
        composed_epsilon(
            residual_one_batch_pair(affected_roots=9, rate=0.2, neighbour_clip=0.2, noise_std=3.0), steps=50, delta=1e-5
        )
        > 1.1 * two
    )


def test_one_batch_by_hand() -> None:
    """R = 2, so one other root is revealed or not: the divergences of both cases, averaged."""
    rate, clip, noise = 0.3, 0.4, 1.1
    x = np.linspace(-25, 25, 400_001)
    for epsilon in (-0.5, 0.0, 0.8):
        both = np.zeros(2)
        for drawn, weight in ((0, 1 - rate), (1, rate)):
            a = density(np.array([drawn * clip, drawn * clip + 1 + clip]), np.array([1 - rate, rate]), noise, x)
            b = density(np.array([-drawn * clip]), np.array([1.0]), noise, x)
            both += [weight * np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x) for p, q in ((a, b), (b, a))]
        pair = residual_one_batch_pair(affected_roots=2, rate=rate, neighbour_clip=clip, noise_std=noise)
        delta = pair.distribution(discretization=1e-3, tail_mass=1e-12).get_delta_for_epsilon(epsilon)
        assert delta == pytest.approx(both.max(), rel=1e-3)


def test_one_batch_without_neighbours_is_the_poisson_gaussian() -> None:
    one = composed_epsilon(
        residual_one_batch_pair(affected_roots=7, rate=0.1, neighbour_clip=0.0, noise_std=3.0), steps=50, delta=1e-5
    )
    assert one == pytest.approx(
        composed_epsilon(affected_roots_pair(affected_roots=1, rate=0.1, noise_std=3.0), steps=50, delta=1e-5), rel=1e-3
    )


def test_fixed_size_batches_need_another_pair() -> None:
    """One replaced record at rate .01, s = 1, T = 1000, delta = 1e-5: displaced roots make it 13.36 instead of 2.84."""
    displaced = MixturePair(Mixture.binomial(count=1, rate=0.01, unit=2.0), Mixture.from_terms([1.0], [0.0]), 1.0)
    assert composed_epsilon(displaced, steps=1000, delta=1e-5) == pytest.approx(13.36, rel=1e-3)
    assert composed_epsilon(
        affected_roots_pair(affected_roots=1, rate=0.01, noise_std=1.0, own_root_removed=False), steps=1000, delta=1e-5
    ) == pytest.approx(2.84, rel=2e-3)


@pytest.mark.parametrize(("rate", "negligible"), [(0.02, 1e-2), (0.5, 1e-3), (0.9, 1e-2)])
def test_tails_that_count_as_drawn_farther_out_never_lower_delta(
    monkeypatch: pytest.MonkeyPatch, rate: float, negligible: float
) -> None:
    exact = affected_roots_pair(affected_roots=40, rate=rate, noise_std=3.0)
    monkeypatch.setattr(double_mixture, "NEGLIGIBLE", negligible)
    joined = affected_roots_pair(affected_roots=40, rate=rate, noise_std=3.0)
    assert len(joined.left.shifts) < len(exact.left.shifts)
    assert sum(joined.left.probabilities) == pytest.approx(1, abs=1e-12)
    epsilons = np.linspace(-2, 12, 57)
    assert (joined.delta(epsilons) >= exact.delta(epsilons) - 1e-12).all()
