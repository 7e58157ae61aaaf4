"""The requirements of docs/privacy, derived once more from (q, K, D, r, C, noise multiplier) alone.

This module calls no mechanism and no accountant of `dpgraph.privacy`. A wrong number there that the prepared steps
share shows only in a comparison with numbers of another origin. The code is slow and for small numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import binom, hypergeom

from dpgraph.engine.methods.spec import NoiseUnit

Law = tuple[np.ndarray, np.ndarray]  # probabilities, means in units of C


def tree_size(degree: int, depth: int) -> int:
    """Return N(K, t) = 1 + K + ... + K^t, 0 for t < 0."""
    return sum(degree**t for t in range(depth + 1))


def affected_roots(degree: int, cap: int, hops: int, num_roots: int) -> int:
    """Return R = N(K, r) + D N(K, r - 1) (Theorem 3), at most one more than there are roots."""
    return min(tree_size(degree, hops) + cap * tree_size(degree, hops - 1), num_roots + 1) if hops else 1


def std_over_multiplier(unit: NoiseUnit, hops: int, degree: int, cap: int, num_roots: int, batch_size: int) -> float:
    """Return the noise std on the sum, over C times the noise multiplier."""
    if unit == "2 C R":
        return 2.0 * affected_roots(degree, cap, hops, num_roots)
    if unit == "2 C N(K, r)":
        return 2.0 * tree_size(degree, hops)
    return float(batch_size) if unit == "m C" else 1.0


def binomial(count: int, rate: float) -> Law:
    """Return the law of a binomial number, in units of C."""
    return binom.pmf(np.arange(count + 1), count, rate), np.arange(count + 1, dtype=float)


def added(first: Law, second: Law) -> Law:
    """Return the law of the sum of two independent means."""
    return np.outer(first[0], second[0]).ravel(), np.add.outer(first[1], second[1]).ravel()


@dataclass(frozen=True)
class MixtureClaim:
    """A claim about a run: Gaussian mixtures `left` against minus `right`, `steps` times, then mu-GDP once."""

    left: Law
    right: Law
    noise: float
    steps: int = 1
    mu: float = 0.0  # of Gaussian mechanisms besides

    def log_ratio(self, position: np.ndarray) -> np.ndarray:
        """Return ln of the densities of `left` over minus `right` at positions in units of C."""
        x = np.asarray(position, dtype=float)[..., None]
        return _log_density(x, self.left, 1, self.noise) - _log_density(x, self.right, -1, self.noise)

    def delta(self, epsilons: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return delta(epsilon), the larger of both directions."""
        both = [_LossLaw.of_claim(self, way).delta(np.asarray(epsilons, dtype=float)) for way in (1, -1)]
        return np.maximum(*both)

    def epsilon(self, delta: float) -> float:
        """Return epsilon(delta), the larger of both directions."""
        return max(_LossLaw.of_claim(self, way).epsilon(delta) for way in (1, -1))

    def divergence(self, orders: np.ndarray) -> np.ndarray:
        """Return the Renyi divergences, the larger of both directions.

        Orders have to be small enough that tails beyond `REACH` do not count.
        """
        return np.maximum(*(_LossLaw.of_claim(self, way).divergence(orders) for way in (1, -1)))


def poisson(roots: int, rate: float, noise: float, steps: int, mu: float = 0.0) -> MixtureClaim:
    """Return the claim of Theorem 4: R affected roots at rate q, R - 1 on the side without the record."""
    return MixtureClaim(binomial(roots, rate), binomial(roots - 1, rate), noise, steps, mu)


def residual(roots: int, first: float, second: float, ratio: float, noise: float, steps: int) -> MixtureClaim:
    """Return the claim of Theorem 7: an own term at rate q1, neighbour terms of norm C_n / C_s at rate q2."""
    weights, counts = binomial(roots, second)
    left = added(binomial(1, first), (weights, ratio * counts))
    weights, counts = binomial(roots - 1, second)
    return MixtureClaim(left, (weights, ratio * counts), noise, steps)


def gaussian_delta(mu: float, epsilons: np.ndarray) -> np.ndarray:
    """Return delta of a Gaussian mechanism of this mu."""
    return ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons + log_ndtr(-mu / 2 - epsilons / mu))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return epsilon of a Gaussian mechanism of this mu, by bisection."""
    low, high = 0.0, 1.0 + mu * (mu + 10)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, np.array([middle]))[0] > delta else (low, middle)
    return high


def epsilon_of_renyi(divergence: np.ndarray, orders: np.ndarray, delta: float) -> float:
    """Return the least epsilon over the orders (Canonne et al. 2020, Proposition 12)."""
    bounds = divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(bounds.min()))


ORDERS = 1 + np.geomspace(1e-2, 1e4, 4000)


def fixed_size_divergence(num_roots: int, size: int, roots: int, noise: float, moved: float) -> np.ndarray:
    """Return the Renyi divergences of one step at `ORDERS` (Theorem 6).

    A hypergeometric number of the affected roots is drawn, and each moves the sum by `moved` C.
    """
    drawn = np.arange(min(roots, num_roots) + 1)
    law = hypergeom.logpmf(drawn, num_roots, drawn[-1], size)
    exponents = ORDERS[:, None] * (ORDERS[:, None] - 1) * (moved * drawn / noise) ** 2 / 2
    return np.asarray(logsumexp(law + exponents, axis=1) / (ORDERS - 1))


GRID = 2e-3  # of losses
REACH = 12.0  # standard deviations


def _log_density(x: np.ndarray, law: Law, sign: int, noise: float) -> np.ndarray:
    kept = law[0] > 0
    return np.asarray(
        logsumexp(np.log(law[0][kept]) - (x - sign * law[1][kept]) ** 2 / (2 * noise**2), axis=-1)
    ) - math.log(noise * math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class _LossLaw:
    """Probabilities of losses first, first + GRID, ...: rounded to the nearest, so that errors average out."""

    first: float
    mass: np.ndarray

    @classmethod
    def of_claim(cls, claim: MixtureClaim, way: int) -> _LossLaw:
        """Return the loss law of a claim in one direction."""
        low = -claim.right[1].max() - REACH * claim.noise
        high = claim.left[1].max() + REACH * claim.noise
        total = cls(0.0, np.ones(1))
        if claim.steps:
            x = np.linspace(low, high, 20_001)
            near = _log_density(x[:, None], *((claim.left, 1) if way > 0 else (claim.right, -1)), claim.noise)
            losses = way * np.concatenate([claim.log_ratio(part) for part in np.array_split(x, 10)])
            total = cls._rounded(losses, np.exp(near) * (x[1] - x[0])).repeated(claim.steps)
        if claim.mu:
            z = np.linspace(-REACH, REACH, 20_001)
            weights = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
            total = total.with_(cls._rounded(claim.mu * z + claim.mu**2 / 2, weights))
        return total

    @classmethod
    def _rounded(cls, losses: np.ndarray, weights: np.ndarray) -> _LossLaw:
        place = np.rint(losses / GRID).astype(np.int64)
        return cls(GRID * place.min(), np.bincount(place - place.min(), weights=weights))

    def repeated(self, steps: int) -> _LossLaw:
        """Return the law of the sum of `steps` independent losses."""
        length = next_fast_len(steps * (len(self.mass) - 1) + 1, real=True)
        mass = irfft(rfft(self.mass, length) ** steps, length)
        return _LossLaw(steps * self.first, np.maximum(mass, 0.0))

    def with_(self, other: _LossLaw) -> _LossLaw:
        """Return the law of the sum with another independent loss."""
        length = next_fast_len(len(self.mass) + len(other.mass) - 1, real=True)
        mass = irfft(rfft(self.mass, length) * rfft(other.mass, length), length)
        return _LossLaw(self.first + other.first, np.maximum(mass, 0.0))

    def delta(self, epsilons: np.ndarray) -> np.ndarray:
        """Return delta at these epsilons."""
        losses = self.first + GRID * np.arange(len(self.mass))
        return np.array([-(self.mass * np.expm1(np.minimum(0.0, one - losses))).sum() for one in epsilons])

    def divergence(self, orders: np.ndarray) -> np.ndarray:
        """Return the Renyi divergences at these orders."""
        losses, kept = self.first + GRID * np.arange(len(self.mass)), self.mass > 0
        log_mass = np.log(self.mass[kept])
        return np.array([logsumexp(log_mass + (one - 1) * losses[kept]) / (one - 1) for one in orders])

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at which delta is at most `delta`."""
        low, high = 0.0, float(self.first + GRID * len(self.mass))
        if self.delta(np.array([0.0]))[0] <= delta:
            return 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(np.array([middle]))[0] > delta else (low, middle)
        return high
