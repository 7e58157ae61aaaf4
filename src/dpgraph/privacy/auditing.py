"""Statistics of audits: what does a distinguisher's score show about a claimed privacy curve?

Half of the trials choose thresholds, the other half bounds the errors of "score > threshold means with": false
positives by F, false negatives by M (Clopper & Pearson, all thresholds and both errors jointly at `confidence`). Every
(eps, delta)-DP mechanism has M >= 1 - delta - e^eps F and F >= 1 - delta - e^eps M, so that
max(1 - M - e^eps F, 1 - F - e^eps M) is a lower bound of the true delta(eps). A claimed curve below it at any eps is
refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri
from scipy.stats import beta as beta_law
from scipy.stats import binom

from dpgraph.errors import invalid

CONFIDENCE = 0.99
TARGETS = np.array([0.25, 1.0, 3.0])  # epsilons whose best thresholds are tried, besides that for mu
CANDIDATES = 400  # thresholds among which the first half chooses

Curve = Callable[[np.ndarray], np.ndarray]  # epsilon -> claimed delta


def clopper_pearson_upper(*, events: np.ndarray | int, trials: int, confidence: float) -> np.ndarray:
    """Upper end of the one-sided interval for the probability of an event seen `events` times in `trials`."""
    counts = np.asarray(events)
    with np.errstate(invalid="ignore"):
        return np.where(counts < trials, beta_law.ppf(confidence, counts + 1, np.maximum(trials - counts, 1)), 1.0)


@dataclass(frozen=True)
class Errors:
    """Upper bounds of the errors of a few tests, jointly valid."""

    false_positive: np.ndarray  # F, per threshold
    false_negative: np.ndarray  # M

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        """Lower bound of the true delta at each epsilon."""
        grown = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))[:, None]
        forward = 1 - self.false_negative - grown * self.false_positive
        backward = 1 - self.false_positive - grown * self.false_negative
        return np.maximum(np.maximum(forward, backward).max(axis=1), 0.0)

    def epsilon(self, delta: float) -> float:
        """eps_lb: ln((1 - delta - M) / F), the better direction; 0 where nothing is shown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            both = [
                np.log((1 - delta - miss) / hit)
                for miss, hit in (
                    (self.false_negative, self.false_positive),
                    (self.false_positive, self.false_negative),
                )
            ]
        return max(0.0, float(np.nanmax([np.nanmax(np.where(np.isfinite(side), side, -np.inf)) for side in both])))

    @property
    def mu(self) -> float:
        """mu_lb = -Phi^-1(F) - Phi^-1(M): of a Gaussian mechanism, exact as the trials grow; else only indicative."""
        return max(0.0, float(np.max(-ndtri(self.false_positive) - ndtri(self.false_negative))))


def _counts(with_: np.ndarray, without: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    positives = len(without) - np.searchsorted(np.sort(without), thresholds, side="right")
    return positives, np.searchsorted(np.sort(with_), thresholds, side="right")


def measured_errors(with_scores: np.ndarray, without_scores: np.ndarray, confidence: float = CONFIDENCE) -> Errors:
    """Error bounds from scores (n,) of trials with and without the changed record; higher scores suggest `with`."""
    trials = min(len(with_scores), len(without_scores))
    if trials < 4:
        raise invalid("trials", trials, "an integer >= 4")
    half = trials // 2
    first_with, first_without = with_scores[:half], without_scores[:half]
    pool = np.concatenate([first_with, first_without])
    candidates = np.unique(np.quantile(pool, np.linspace(0, 1, CANDIDATES)))
    false_positives, false_negatives = _counts(first_with, first_without, candidates)
    f = clopper_pearson_upper(events=false_positives, trials=half, confidence=0.99)
    m = clopper_pearson_upper(events=false_negatives, trials=half, confidence=0.99)
    merits = [-ndtri(np.minimum(f, 1 - 1e-12)) - ndtri(np.minimum(m, 1 - 1e-12))]
    for grown in np.exp(TARGETS):
        merits += [1 - m - grown * f, 1 - f - grown * m]
    chosen = candidates[np.unique([int(np.argmax(merit)) for merit in merits])]
    rest_with, rest_without = with_scores[half:trials], without_scores[half:trials]
    counts = _counts(rest_with, rest_without, chosen)
    level = 1 - (1 - confidence) / (2 * len(chosen))
    return Errors(*(clopper_pearson_upper(events=count, trials=trials - half, confidence=level) for count in counts))


def joint_errors(attacks: Sequence[tuple[np.ndarray, np.ndarray]], confidence: float = CONFIDENCE) -> Errors:
    """Bounds from several scores of the same trials, each (with, without), all jointly valid at `confidence`."""
    level = 1 - (1 - confidence) / len(attacks)
    each = [measured_errors(with_scores, without_scores, level) for with_scores, without_scores in attacks]
    return Errors(
        np.concatenate([one.false_positive for one in each]), np.concatenate([one.false_negative for one in each])
    )


@dataclass(frozen=True)
class ProfileTest:
    """A claimed curve against measured errors. `refuted`: some epsilon's claimed delta is below the measured bound."""

    epsilons: np.ndarray
    claimed: np.ndarray
    measured: np.ndarray

    @property
    def refuted(self) -> bool:
        return bool(np.any(self.measured > self.claimed))


def profile_test(errors: Errors, claim: Curve, epsilons: np.ndarray | None = None) -> ProfileTest:
    """Tests the whole claimed curve at once: the error bounds hold jointly, so any number of epsilons may be tried."""
    grid = np.linspace(0.0, 8.0, 65) if epsilons is None else np.asarray(epsilons, dtype=float)
    claimed = np.maximum(np.asarray(claim(grid), dtype=float), 0.0)  # closed forms may round below zero
    return ProfileTest(grid, claimed, errors.delta(grid))


def one_run_tail(*, correct: int, guesses: int, canaries: int, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(beta, slope): P(at least `correct` right guesses) <= beta + delta slope under (epsilon, delta)-DP, per epsilon.

    Steinke, Nasr & Jagielski (2023), Theorem 5.2: each of `canaries` = m independent records is in with probability
    1/2, and r = `guesses` of them are guessed in or out. With W ~ Bin(r, e^eps / (1 + e^eps)), beta = P(W >= v) and
    slope = 2 m max_i P(v - i <= W < v) / i.
    """
    rate = expit(np.asarray(epsilon, dtype=float))[:, None]
    below = binom.cdf(np.arange(-1, correct), guesses, rate)  # P(W < 0), ..., P(W < v)
    beta = binom.sf(correct - 1, guesses, rate[:, 0])
    lengths = np.arange(1, correct + 1)
    slope = ((below[:, -1:] - below[:, -1 - lengths]) / lengths).max(axis=1, initial=0.0)
    return beta, 2 * canaries * slope


def one_run_delta(
    *, correct: int, guesses: int, canaries: int, epsilon: np.ndarray, confidence: float = CONFIDENCE
) -> np.ndarray:
    """Lower bound of the true delta at each epsilon, from right guesses in a single run; see `one_run_tail`.

    More right guesses refute more, at every epsilon, so the whole curve holds at once.
    """
    beta, slope = one_run_tail(correct=correct, guesses=guesses, canaries=canaries, epsilon=epsilon)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(beta < 1 - confidence, (1 - confidence - beta) / slope, 0.0)
    return np.minimum(np.nan_to_num(bound, posinf=1.0), 1.0)


def one_run_epsilon(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float = CONFIDENCE
) -> float:
    """Lower bound of epsilon at `delta`: the largest that is refuted."""

    def excess(epsilon: float) -> float:
        beta, slope = one_run_tail(correct=correct, guesses=guesses, canaries=canaries, epsilon=np.array([epsilon]))
        return float(beta[0] + delta * slope[0]) - (1 - confidence)

    return float(brentq(excess, 0.0, 50.0)) if excess(0.0) < 0 else 0.0


def one_run_guesses(scores: np.ndarray, present: np.ndarray, guesses: int) -> int:
    """Right guesses when the r/2 records of highest score are guessed in, and the r/2 of lowest score out."""
    if not 2 <= guesses <= len(scores) or guesses % 2:
        raise invalid("guesses", guesses, f"an even integer in 2..{len(scores)}")
    order = np.argsort(scores, kind="stable")
    half = guesses // 2
    return int(present[order[-half:]].sum() + (~present[order[:half]]).sum())
