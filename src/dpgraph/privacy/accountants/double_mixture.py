"""Privacy loss of two mixtures of Gaussians whose means are on opposite sides of zero.

Double-mixture theorem (docs/privacy/shared.md, Theorem 1): let P = sum_i p_i N(a_i, s^2 I), Q = sum_j q_j N(b_j, s^2 I)
with norms |a_i| <= A_i and |b_j| <= B_j. Then for every kappa >= 0 the hockey-stick divergence H_kappa(P || Q) is at
most that of the scalar pair sum_i p_i N(A_i, s^2), sum_j q_j N(-B_j, s^2). The scalar pair dominates, hence composes
adaptively.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_privacy_parameters
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

TABLE_POINTS = 4096
NEGLIGIBLE = 1e-30  # probability of a binomial law's tail that may count as drawn farther out
BEYOND = 38.0  # standard deviations; log_ndtr(-38) is about -727, the end of the representable range
MOST_REVEALED = 256  # pairs of a public draw
CHUNK = 1 << 22  # array elements per evaluation


@dataclass(frozen=True)
class Mixture:
    """Probabilities of non-negative distances from zero, in units of the clip norm."""

    probabilities: tuple[float, ...]
    shifts: tuple[float, ...]

    @staticmethod
    def from_terms(probabilities: Sequence[float] | np.ndarray, shifts: Sequence[float] | np.ndarray) -> Mixture:
        """Return a mixture without terms of probability zero, equal shifts joined."""
        values, where = np.unique(np.asarray(shifts, dtype=float), return_inverse=True)
        weights = np.bincount(where, weights=np.asarray(probabilities, dtype=float))
        kept = weights > 0
        return Mixture(tuple(weights[kept].tolist()), tuple(values[kept].tolist()))

    @staticmethod
    def binomial(*, count: int, rate: float, unit: float = 1.0) -> Mixture:
        """Return shifts of `unit` times Bin(count, rate), never nearer to zero than that law.

        Tails of less than NEGLIGIBLE in all count as drawn farther out: below as the smallest number that is kept,
        above as `count`. The theorem only needs bounds on the norms, and hundreds of terms become a few.
        """
        drawn = np.arange(count + 1)
        weights = binom.pmf(drawn, count, rate)
        first = int(np.searchsorted(np.cumsum(weights), NEGLIGIBLE))
        last = count - int(np.searchsorted(np.cumsum(weights[::-1]), NEGLIGIBLE))
        kept = np.where(drawn < first, first, np.where(drawn > last, count, drawn))
        return Mixture.from_terms(weights, unit * kept)

    def plus(self, other: Mixture) -> Mixture:
        """Return the law of the sum of two independent shifts."""
        return Mixture.from_terms(
            np.outer(self.probabilities, other.probabilities).ravel(), np.add.outer(self.shifts, other.shifts).ravel()
        )


@dataclass(frozen=True)
class MixturePair:
    """A dominating pair: `left` pushes one way, `right` the other; noise std in the unit of the shifts."""

    left: Mixture
    right: Mixture
    noise_std: float

    @cached_property
    def losses(self) -> tuple[DoubleMixtureGaussianPrivacyLoss, DoubleMixtureGaussianPrivacyLoss]:
        """The privacy losses of both directions."""
        return (
            DoubleMixtureGaussianPrivacyLoss(self.left, self.right, noise_std=self.noise_std),
            DoubleMixtureGaussianPrivacyLoss(self.right, self.left, noise_std=self.noise_std),
        )

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        """Return the exact hockey-stick divergence of one step, the larger of both directions."""
        forward, backward = self.losses
        return np.maximum(forward.get_delta_for_epsilon(epsilon), backward.get_delta_for_epsilon(epsilon))

    def log_ratio(self, position: np.ndarray) -> np.ndarray:
        """Return ln(left / right) of the densities at `position` (n,), in the unit of the shifts: the best test's
        score.
        """
        return self.losses[0]._mapped("_loss_and_slope", -np.asarray(position, dtype=float) / self.noise_std)[0]

    def loss_std(self) -> float:
        """Return the standard deviation of one step's privacy loss, the larger of both directions."""
        return max(loss.loss_std() for loss in self.losses)

    def largest_loss(self, tail_mass: float) -> float:
        """Return a loss that is exceeded with probability at most `tail_mass`, in either direction."""
        return max(loss.loss_bounds(tail_mass)[1] for loss in self.losses)

    def distribution(self, *, discretization: float, tail_mass: float) -> PrivacyLossDistribution:
        """Return the pessimistic loss distribution of one step; at most `tail_mass` goes to an infinite loss."""
        forward, backward = (
            loss.pessimistic_pmf(discretization=discretization, tail_mass=tail_mass) for loss in self.losses
        )
        return PrivacyLossDistribution(forward, backward)


@dataclass(frozen=True)
class RevealedPair:
    """A public draw with probabilities `weights` determines which of `pairs` holds: their divergences average."""

    weights: tuple[float, ...]
    pairs: tuple[MixturePair, ...]

    def loss_std(self) -> float:
        return max(pair.loss_std() for pair in self.pairs)

    def largest_loss(self, tail_mass: float) -> float:
        share = tail_mass / len(self.pairs)
        return max(
            pair.largest_loss(share / weight) for weight, pair in zip(self.weights, self.pairs) if weight > share
        )

    def distribution(self, *, discretization: float, tail_mass: float) -> PrivacyLossDistribution:
        share = tail_mass / len(self.pairs)
        total, mixed = 0.0, None
        for weight, pair in zip(self.weights, self.pairs):
            if weight > share:
                part = pair.distribution(discretization=discretization, tail_mass=tail_mass)
            else:  # so rare that its loss may count as infinite
                revealed = DifferentialPrivacyParameters(0.0, 1.0)
                part = from_privacy_parameters(revealed, value_discretization_interval=discretization)
            total += weight
            mixed = part if mixed is None else part.compute_mixture(mixed, weight / total)
        return mixed


class DoubleMixtureGaussianPrivacyLoss:
    """Privacy loss of `upper` (means at minus its shifts) against `lower` (means at plus its shifts).

    `noise_std` is in the unit of the shifts. Signs follow dp-accounting: the loss does not increase in x. Internally x
    is in units of the noise std. With one affected record it equals the library's Poisson-subsampled Gaussian.
    """

    def __init__(self, upper: Mixture, lower: Mixture, *, noise_std: float):
        self._upper_log, self._upper_means = np.log(upper.probabilities), -np.asarray(upper.shifts) / noise_std
        self._lower_log, self._lower_means = np.log(lower.probabilities), np.asarray(lower.shifts) / noise_std

    def _mapped(self, function: str, x: np.ndarray) -> np.ndarray:
        """Apply a method to x (n,) in chunks: its arrays have n times the number of mixture terms."""
        rows = max(1, CHUNK // max(len(self._upper_log), len(self._lower_log)))
        parts = [getattr(self, function)(x[i : i + rows]) for i in range(0, len(x), rows)]
        return np.concatenate(parts, axis=-1)

    def _upper_log_cdf(self, x: np.ndarray) -> np.ndarray:
        return logsumexp(self._upper_log + log_ndtr(x[:, None] - self._upper_means), axis=1)

    def _upper_log_survival(self, x: np.ndarray) -> np.ndarray:
        return logsumexp(self._upper_log + log_ndtr(self._upper_means - x[:, None]), axis=1)

    def _lower_log_cdf(self, x: np.ndarray) -> np.ndarray:
        return logsumexp(self._lower_log + log_ndtr(x[:, None] - self._lower_means), axis=1)

    def _loss_and_slope(self, x: np.ndarray) -> np.ndarray:
        """Return (2, n): loss and its derivative, the difference of the posterior means. exp(-x^2/2) cancels."""
        totals, means = [], []
        for log_weights, centres in ((self._upper_log, self._upper_means), (self._lower_log, self._lower_means)):
            terms = (log_weights - centres**2 / 2) + x[:, None] * centres
            top = terms.max(axis=1, keepdims=True)
            parts = np.exp(terms - top)
            total = parts.sum(axis=1)
            totals.append(top[:, 0] + np.log(total))
            means.append(parts @ centres / total)
        return np.stack([totals[0] - totals[1], means[0] - means[1]])

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """The table of ascending x and their losses, not increasing."""
        x = np.linspace(self._upper_means.min() - BEYOND, self._lower_means.max() + BEYOND, TABLE_POINTS)
        return x, np.minimum.accumulate(self._mapped("_loss_and_slope", x)[0])

    def _inverse(self, loss: np.ndarray) -> np.ndarray:
        """Return x at a loss, by Newton's method inside a bracket of the table; the table's end where none exists."""
        x, losses = self._table
        after = np.searchsorted(-losses, -loss, side="left").clip(1, len(x) - 1)
        low, high = x[after - 1].copy(), x[after].copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (losses[after - 1] - loss) / (losses[after - 1] - losses[after])
        guess = low + (high - low) * np.where(np.isfinite(share), share.clip(0, 1), 0.5)
        for _ in range(60):
            value, slope = self._mapped("_loss_and_slope", guess)
            too_high_loss = value > loss
            low, high = np.where(too_high_loss, guess, low), np.where(too_high_loss, high, guess)
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = guess - (value - loss) / slope
            following = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2)
            moved = np.abs(following - guess).max(initial=0.0)
            guess = following
            if moved < 1e-6:  # the divergence is stationary at the exact x: its error is of the order of the square
                break
        return guess

    def get_delta_for_epsilon(self, epsilon: np.ndarray) -> np.ndarray:
        """Return (n,) the hockey-stick divergence H(upper || lower) at exp(epsilon), epsilon (n,) in any order."""
        x = self._inverse(epsilon)
        upper, lower = self._mapped("_upper_log_cdf", x), self._mapped("_lower_log_cdf", x)
        excess = np.minimum(epsilon + lower - upper, 0.0)
        return np.asarray(-np.exp(upper) * np.expm1(excess))

    def loss_std(self) -> float:
        """Return the standard deviation of the loss under `upper`, by quadrature on the table."""
        losses = self._table[1]
        weights = np.diff(np.exp(self._log_tails[0]))
        middle = (losses[1:] + losses[:-1]) / 2
        mean = weights @ middle
        return float(np.sqrt(weights @ (middle - mean) ** 2))

    @cached_property
    def _log_tails(self) -> tuple[np.ndarray, np.ndarray]:
        """Log probability under `upper` of at most, and of more than, each x of the table."""
        x, _ = self._table
        return self._mapped("_upper_log_cdf", x), self._mapped("_upper_log_survival", x)

    def loss_bounds(self, tail_mass: float) -> tuple[float, float]:
        """Return the losses below and above which `upper` has at most `tail_mass` each."""
        log_tail = float(np.log(tail_mass)) if tail_mass > 0 else -np.inf
        x, losses = self._table
        below, above = self._log_tails
        first = int(np.searchsorted(below, log_tail)) - 1
        last = len(x) - int(np.searchsorted(above[::-1], log_tail))
        return float(losses[min(last, len(x) - 1)]), float(losses[max(first, 0)])

    def pessimistic_pmf(self, *, discretization: float, tail_mass: float) -> pld_pmf.PLDPmf:
        """Discretise by connect-the-dots (Doroshenko et al. 2022): never below the true divergence."""
        low, high = self.loss_bounds(tail_mass)
        first, last = int(np.floor(low / discretization)), int(np.ceil(high / discretization))
        deltas = self.get_delta_for_epsilon(np.arange(first, last + 1) * discretization)
        # Rounding of a few 1e-16 may break the order that the library checks.
        deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(discretization, first, last, deltas)


def affected_roots_pair(
    *, affected_roots: int, rate: float, noise_std: float, own_root_removed: bool = True
) -> MixturePair:
    """Return the pair of one Poisson step in which at most R loss terms change (double-mixture theorem).

    Args:
        affected_roots: R; each changed term has norm <= 1 before and after.
        rate: q.
        noise_std: The multiplier: noise std divided by the clip norm.
        own_root_removed: The changed node's own term vanishes on one side (node-null); False: it is replaced, too.
    """
    return MixturePair(
        Mixture.binomial(count=affected_roots, rate=rate),
        Mixture.binomial(count=affected_roots - int(own_root_removed), rate=rate),
        noise_std,
    )


def residual_pair(
    *, affected_roots: int, self_rate: float, neighbour_rate: float, neighbour_clip: float, noise_std: float
) -> MixturePair:
    """Return the pair of one step of residual clipping with two independent Poisson batches.

    With one batch for both terms the pair is false (docs/privacy/residual.md); see `residual_one_batch_pair`. The unit
    is the clip norm of the self terms.

    Args:
        affected_roots: R, the changed neighbour terms.
        self_rate: The rate of the node's own self term, of norm 1.
        neighbour_rate: The rate of the neighbour terms.
        neighbour_clip: The norm C_n of a neighbour term.
        noise_std: Noise std.
    """
    if neighbour_clip == 0:
        return affected_roots_pair(affected_roots=1, rate=self_rate, noise_std=noise_std)
    own = Mixture.binomial(count=1, rate=self_rate)
    left = own.plus(Mixture.binomial(count=affected_roots, rate=neighbour_rate, unit=neighbour_clip))
    right = Mixture.binomial(count=affected_roots - 1, rate=neighbour_rate, unit=neighbour_clip)
    return MixturePair(left, right, noise_std)


def residual_one_batch_pair(
    *, affected_roots: int, rate: float, neighbour_clip: float, noise_std: float
) -> RevealedPair:
    """Return the pair of residual clipping with one Poisson batch for both terms.

    The unit is the clip norm of the self terms. The unchanged self terms of affected roots reveal which of them were
    drawn, so their number i ~ Bin(R - 1, rate) is revealed: (1 - q) N(i C_n) + q N(i C_n + C_s + C_n) against N(-i
    C_n), averaged over i (docs/privacy/residual.md). Of more than MOST_REVEALED numbers, neighbouring ones count as
    the largest of them, which moves both sides apart.
    """
    revealed = Mixture.binomial(count=affected_roots - 1, rate=rate)
    group = -(-len(revealed.shifts) // MOST_REVEALED)
    if group > 1:
        last = np.minimum(np.arange(len(revealed.shifts)) // group * group + group, len(revealed.shifts)) - 1
        revealed = Mixture.from_terms(revealed.probabilities, np.asarray(revealed.shifts)[last])
    pairs = tuple(
        MixturePair(
            Mixture.from_terms([1 - rate, rate], [drawn * neighbour_clip, drawn * neighbour_clip + 1 + neighbour_clip]),
            Mixture.from_terms([1.0], [drawn * neighbour_clip]),
            noise_std,
        )
        for drawn in revealed.shifts
    )
    return RevealedPair(revealed.probabilities, pairs)
