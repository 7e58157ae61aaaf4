"""Epsilon of many adaptive steps, each with its dominating pair (privacy loss distributions)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.optimize import bisect
from scipy.special import logsumexp

from dpgraph.core.errors import invalid
from dpgraph.privacy.accountants.double_mixture import Mixture, MixturePair
from dpgraph.privacy.accountants.renyi import SMALLEST_RDP, Orders

MOST_NODES = 1 << 16


class Pair(Protocol):
    """A dominating pair of one step; hashable, since its distribution is kept for neighbouring settings."""

    def __hash__(self) -> int: ...

    def loss_std(self) -> float: ...

    def largest_loss(self, tail_mass: float) -> float:
        """Return a loss that is exceeded with probability at most `tail_mass`, in either direction."""
        ...

    def distribution(self, *, discretization: float, tail_mass: float) -> PrivacyLossDistribution: ...


# Refine until a grid four times finer moves epsilon by less than this share; the error left is a fifteenth of it.
TOLERANCE = 2e-3
MOST_REFINEMENTS = 5
FIRST_POINTS, MOST_POINTS = 2.0**12, 2.0**20  # of one step's first and finest grid
ROUNDING = 1e-16  # of delta and step, what Fourier transforms may lose; measured against Gaussian DP
# Beyond so many steps the library's bound on the length of the result is loose: they are composed in two stages, where
# one step's grid is short, and grids are refined no further than to so many points of the result.
LONG, SHORT_STEP, LONGEST_RESULT = 100_000, 2.0**13, 2.0**20
STANDARD_DEVIATIONS = 24.0  # of the composed loss that a result is long, about
SURE = 700.0  # of a pure mechanism, whose other loss is then less likely than e^-700: its loss may count as certain
LARGEST_LOSS = 2.0**18  # beyond, grids are too long; no record is protected there, so a crude bound is enough


@lru_cache(maxsize=64)
def _one_step(pair: Pair, grid: float, tail_mass: float) -> PrivacyLossDistribution:
    return pair.distribution(discretization=grid, tail_mass=tail_mass)


@lru_cache(maxsize=64)
def _loss_std(pair: Pair) -> float:
    return pair.loss_std()


@dataclass(frozen=True)
class ComposedPair:
    """Several mechanisms, each once: the composition of their pairs."""

    pairs: tuple[Pair, ...]

    def loss_std(self) -> float:
        return math.hypot(*(pair.loss_std() for pair in self.pairs))

    def largest_loss(self, tail_mass: float) -> float:
        return sum(pair.largest_loss(tail_mass / len(self.pairs)) for pair in self.pairs)

    def distribution(self, *, discretization: float, tail_mass: float) -> PrivacyLossDistribution:
        first, *others = (_one_step(pair, discretization, tail_mass / (2 * len(self.pairs))) for pair in self.pairs)
        for other in others:
            first = first.compose(other, tail_mass_truncation=tail_mass / (2 * len(self.pairs)))
        return first


@dataclass(frozen=True)
class RepeatedPair:
    """A mechanism of `times` adaptive steps of one pair."""

    pair: Pair
    times: int

    def loss_std(self) -> float:
        return math.sqrt(self.times) * self.pair.loss_std()

    def largest_loss(self, tail_mass: float) -> float:
        return self.times * self.pair.largest_loss(tail_mass / self.times)

    def distribution(self, *, discretization: float, tail_mass: float) -> PrivacyLossDistribution:
        one = _one_step(self.pair, discretization, tail_mass / (2 * self.times))
        return _repeated(one, self.times, tail_mass / 2, False)


def gaussian_pair(mu: float) -> MixturePair:
    """Return the pair of the Gaussian mechanism, mu = sensitivity / noise std."""
    return MixturePair(Mixture.from_terms([1.0], [mu]), Mixture.from_terms([1.0], [0.0]), 1.0)


def composed_delta(pair: Pair, *, steps: int, epsilons: np.ndarray, tail_mass: float = 1e-9) -> np.ndarray:
    """Return delta(epsilon) of `steps` adaptive steps, for a whole curve: never below the true one.

    Mass cut from tails counts as infinite loss, and what rounding may lose is added. The grid is an eighth of the
    standard deviation of one step's loss.
    """
    grid = 2.0 ** np.floor(np.log2(max(_loss_std(pair), 1e-9) / 8))
    composed = _one_step(pair, grid, tail_mass / steps)
    if steps > 1:
        composed = composed.self_compose(steps, tail_mass_truncation=tail_mass)
    rounded = np.array([composed.get_delta_for_epsilon(float(epsilon)) for epsilon in epsilons])
    return rounded + ROUNDING * steps * _steps_of(pair)


@lru_cache(maxsize=256)
def composed_epsilon(
    pair: Pair, *, steps: int, delta: float, tolerance: float = TOLERANCE, once: Pair | None = None
) -> float:
    """Return epsilon of adaptive steps at delta, an upper bound.

    The bound is within about `tolerance` / 15 of the exact value: connect-the-dots errs by at most steps * grid^2 / 8
    in the mean loss, so a grid that is fine compared with the standard deviation of one step's loss is enough, and the
    error is divided by sixteen with every refinement. Answers are kept: a search for the noise of a target ends at a
    point that it has evaluated.

    Args:
        pair: The dominating pair of one step.
        steps: T.
        delta: In (0, 1).
        tolerance: The relative change of epsilon that ends the refinement.
        once: The pair of one more mechanism, which runs once.

    Raises:
        UserError: delta is so small that rounding may reach it.
    """
    count = steps * _steps_of(pair) + (0 if once is None else _steps_of(once))
    if delta < 10 * ROUNDING * count:
        raise invalid("delta", delta, f"a number >= {10 * ROUNDING * count:.3g} for {count} steps: rounding reaches it")
    # Powers of ten and of two, so that neighbouring settings share cached distributions of one step.
    tail_mass = 10.0 ** np.floor(np.log10(1e-4 * delta / steps))
    largest, extra = pair.largest_loss(tail_mass), 0.0 if once is None else once.largest_loss(tail_mass)
    if largest * np.sqrt(steps) + extra > LARGEST_LOSS:
        # Outside of an event of probability at most 1e-4 delta no step loses more than `largest`.
        return steps * largest + extra
    longest = max(largest, extra, 1e-300)
    finest, coarse = (2.0 ** np.ceil(np.log2(longest / most)) for most in (MOST_POINTS, FIRST_POINTS))
    if steps > LONG:
        width = STANDARD_DEVIATIONS * np.sqrt(steps) * max(_loss_std(pair), 1e-9)
        finest = max(finest, 2.0 ** np.ceil(np.log2(width / LONGEST_RESULT)))
    grid = max(finest, min(64.0, max(coarse, 2.0 ** np.floor(np.log2(max(_loss_std(pair), 1e-9) / 4)))))
    epsilon = np.inf
    for _ in range(1 + MOST_REFINEMENTS):
        composed = _repeated(_one_step(pair, grid, tail_mass), steps, 1e-4 * delta, largest / grid < SHORT_STEP)
        if once is not None:
            composed = composed.compose(_one_step(once, grid, tail_mass), tail_mass_truncation=1e-4 * delta)
        previous, epsilon = epsilon, _epsilon_at(composed, delta - ROUNDING * count, steps * largest + extra)
        if epsilon == 0 or previous - epsilon <= tolerance * max(epsilon, 1e-3):
            break
        if grid <= finest:
            break
        grid = max(grid / 4, finest)
    return epsilon


def _steps_of(pair: Pair) -> int:
    """Return of how many steps a pair is, each of which rounds."""
    if isinstance(pair, RepeatedPair):
        return pair.times * _steps_of(pair.pair)
    return sum(map(_steps_of, pair.pairs)) if isinstance(pair, ComposedPair) else 1


def _epsilon_at(composed: PrivacyLossDistribution, delta: float, most: float) -> float:
    """Return epsilon at delta, an upper bound.

    Above 709, where the library's exp(epsilon) may overflow, it is sought up to `most` among the deltas, which do not.
    """
    with np.errstate(over="ignore"):
        epsilon = float(composed.get_epsilon_for_delta(delta))
    if np.isfinite(epsilon) or composed.get_delta_for_epsilon(most) > delta:
        return epsilon
    apart = 1e-9 * most
    return 2 * apart + bisect(
        lambda loss: composed.get_delta_for_epsilon(loss) - delta, 0.0, most, xtol=apart, rtol=1e-12
    )


def _repeated(one: PrivacyLossDistribution, steps: int, tail_mass: float, short: bool) -> PrivacyLossDistribution:
    """Compose `one` with itself `steps` times; at most `tail_mass` goes to an infinite loss.

    With `short`, two stages are faster than one.
    """
    if steps == 1:
        return one
    if steps <= LONG or not short:
        return one.self_compose(steps, tail_mass_truncation=tail_mass)
    inner = math.isqrt(steps)
    outer, rest = divmod(steps, inner)
    part = one.self_compose(inner, tail_mass_truncation=tail_mass / (4 * outer))
    whole = part.self_compose(outer, tail_mass_truncation=tail_mass / 4)
    if rest:
        last = one.self_compose(rest, tail_mass_truncation=tail_mass / 4) if rest > 1 else one
        whole = whole.compose(last, tail_mass_truncation=tail_mass / 4)
    return whole


def pair_rdp(pair: MixturePair, orders: Orders) -> np.ndarray:
    """Return the Renyi divergences of one step at `orders` (> 1), the larger of both directions.

    Where hockey-stick divergences are dominated, so are Renyi divergences. Trapezoid rule, exact to rounding while its
    step is small compared with the integrand's width; orders that would need too long a grid get inf.
    """
    divergences = np.full((2, len(orders)), np.inf)
    octaves = np.floor(np.log2(np.asarray(orders) - 1))
    for octave in np.unique(octaves):
        chosen = octaves == octave
        for side, (near, far) in enumerate(((pair.left, pair.right), (pair.right, pair.left))):
            divergences[side, chosen] = _renyi(near, far, pair.noise_std, np.asarray(orders)[chosen])
    return np.maximum(divergences.max(axis=0), SMALLEST_RDP)


def _renyi(near: Mixture, far: Mixture, noise_std: float, orders: np.ndarray) -> np.ndarray:
    """Return ln E_P (P/Q)^(alpha - 1) / (alpha - 1) for P = near, Q = far on the other side of zero."""
    a, b = (np.asarray(side.shifts) / noise_std for side in (near, far))
    most, spread = orders.max(), a.max() + b.max()
    # P^alpha Q^(1 - alpha) is between the tilted means; the posterior variances (<= spread^2 / 4) narrow it
    low, high = -b.max() - 20, most * spread + 20
    step = 1 / 3 / np.sqrt(1 + most * spread**2 / 4)
    if (high - low) / step > MOST_NODES:
        return np.full(len(orders), np.inf)
    x = np.arange(low, high, step)
    log_p = _log_density(x, np.log(near.probabilities), a)
    ratio = log_p - _log_density(x, np.log(far.probabilities), -b)
    logs = np.array([logsumexp(log_p + (order - 1) * ratio) for order in orders])
    return (logs + np.log(step) + 1e-14) / (orders - 1)  # 1e-14: rounding


def _log_density(x: np.ndarray, log_weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    rows = max(1, (1 << 22) // len(means))
    parts = [logsumexp(log_weights - (x[i : i + rows, None] - means) ** 2 / 2, axis=1) for i in range(0, len(x), rows)]
    return np.concatenate(parts) - np.log(2 * np.pi) / 2


@dataclass(frozen=True)
class PureDp:
    """The dominating pair of any epsilon-DP mechanism, such as a choice of a clip norm: randomised response."""

    epsilon: float

    def loss_std(self) -> float:
        return float(self.epsilon / np.cosh(min(self.epsilon, SURE) / 2))

    def largest_loss(self, tail_mass: float) -> float:
        return self.epsilon

    def distribution(self, *, discretization: float, tail_mass: float) -> PrivacyLossDistribution:
        if self.epsilon > SURE:
            place = math.ceil(self.epsilon / discretization)
            return PrivacyLossDistribution(DensePLDPmf(discretization, place, np.ones(1), 0.0, True))
        return privacy_loss_distribution.from_privacy_parameters(
            DifferentialPrivacyParameters(self.epsilon), value_discretization_interval=discretization
        )

    def rdp(self, orders: Sequence[float]) -> np.ndarray:
        """Return the Renyi divergences at `orders` (> 1)."""
        order = np.asarray(orders)
        log_yes, log_no = -np.logaddexp(0, -self.epsilon), -np.logaddexp(0, self.epsilon)
        tilt = (order - 1) * self.epsilon  # ln of the likelihood ratio to the power of order - 1
        return np.logaddexp(log_yes + tilt, log_no - tilt) / (order - 1)
