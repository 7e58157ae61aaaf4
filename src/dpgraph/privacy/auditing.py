"""Statistics of audits: the bound on a privacy curve that a distinguisher's scores show.

Half of the trials choose thresholds; the other half bounds the errors of the test "score > threshold means with": false
positives by F, false negatives by M (Clopper & Pearson, all thresholds and both errors jointly at `confidence`). Every
(eps, delta)-DP mechanism has M >= 1 - delta - e^eps F and F >= 1 - delta - e^eps M, so that max(1 - M - e^eps F, 1 - F
- e^eps M) is a lower bound of the true delta(eps). A claimed curve below it at any eps is refuted. The first half also
finds the direction of the scores. Scores and claims that are not finite are refused.

One run with many canaries bounds the same from the number of right guesses: (epsilon, delta) by Steinke, Nasr &
Jagielski (2023), a whole trade-off function by Mahloujifar, Melis & Chaudhuri (2025).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri
from scipy.stats import beta as beta_law
from scipy.stats import binom

from dpgraph.core.errors import invalid

CONFIDENCE = 0.99
TARGETS = np.array([0.25, 1.0, 3.0])  # epsilons whose best thresholds are tried, besides that for mu
CANDIDATES = 400  # thresholds among which the first half chooses

Curve = Callable[[np.ndarray], np.ndarray]  # epsilon -> claimed delta
Inverse = Callable[[np.ndarray], np.ndarray]  # y -> the least Q(S) of a set S with P(S) >= y, of the worst neighbours
LARGEST_MU = 20.0  # of `one_run_mu`; beyond, no record is protected


def finite(scores: np.ndarray, what: str = "score") -> np.ndarray:
    """Return the scores as float64. Raise UserError where one is not finite: an audit that cannot run does not pass."""
    found = np.asarray(scores, dtype=np.float64)
    broken = found[~np.isfinite(found)]
    if broken.size:
        raise invalid(what, broken.flat[0], f"finite numbers ({broken.size} of {found.size} are not): mend the attack")
    return found


def clopper_pearson_upper(*, events: np.ndarray | int, trials: int, confidence: float) -> np.ndarray:
    """Return the one-sided upper bound for the probability of an event seen `events` times in `trials`."""
    counts = np.asarray(events)
    with np.errstate(invalid="ignore"):
        return np.where(counts < trials, beta_law.ppf(confidence, counts + 1, np.maximum(trials - counts, 1)), 1.0)


@dataclass(frozen=True)
class Errors:
    """Jointly valid upper bounds of the errors of a few tests."""

    false_positive: np.ndarray  # F, per threshold
    false_negative: np.ndarray  # M

    def delta(self, epsilon: np.ndarray) -> np.ndarray:
        """Return a lower bound of the true delta at each epsilon."""
        grown = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))[:, None]
        forward = 1 - self.false_negative - grown * self.false_positive
        backward = 1 - self.false_positive - grown * self.false_negative
        return np.maximum(np.maximum(forward, backward).max(axis=1), 0.0)

    def epsilon(self, delta: float) -> float:
        """Return the lower bound ln((1 - delta - M) / F) of epsilon, the better direction; 0 where it shows none."""
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
        """The bound mu_lb = -Phi^-1(F) - Phi^-1(M): exact for Gaussian mechanisms as trials grow, else indicative."""
        return max(0.0, float(np.max(-ndtri(self.false_positive) - ndtri(self.false_negative))))


def _counts(with_: np.ndarray, without: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    positives = len(without) - np.searchsorted(np.sort(without), thresholds, side="right")
    return positives, np.searchsorted(np.sort(with_), thresholds, side="right")


def measured_errors(with_scores: np.ndarray, without_scores: np.ndarray, confidence: float = CONFIDENCE) -> Errors:
    """Return error bounds from scores (n,) of trials with and without the changed record.

    The first half of the trials finds whether higher or lower scores suggest `with`. Raise UserError for scores that
    are not finite.
    """
    trials = min(len(with_scores), len(without_scores))
    if trials < 4:
        raise invalid("trials", trials, "an integer >= 4")
    half = trials // 2
    sides = finite(with_scores), finite(without_scores)
    ways = [_chosen(sign * sides[0][:half], sign * sides[1][:half]) for sign in (1.0, -1.0)]
    sign, chosen = (1.0, ways[0][1]) if ways[0][0] >= ways[1][0] else (-1.0, ways[1][1])
    counts = _counts(sign * sides[0][half:trials], sign * sides[1][half:trials], chosen)
    level = 1 - (1 - confidence) / (2 * len(chosen))
    return Errors(*(clopper_pearson_upper(events=count, trials=trials - half, confidence=level) for count in counts))


def _chosen(with_: np.ndarray, without: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the largest mu that a threshold shows on these trials, and the thresholds that are best for a purpose."""
    half = len(with_)
    candidates = np.unique(np.quantile(np.concatenate([with_, without]), np.linspace(0, 1, CANDIDATES)))
    false_positives, false_negatives = _counts(with_, without, candidates)
    f = clopper_pearson_upper(events=false_positives, trials=half, confidence=0.99)
    m = clopper_pearson_upper(events=false_negatives, trials=half, confidence=0.99)
    merits = [-ndtri(np.minimum(f, 1 - 1e-12)) - ndtri(np.minimum(m, 1 - 1e-12))]
    for grown in np.exp(TARGETS):
        merits += [1 - m - grown * f, 1 - f - grown * m]
    return float(merits[0].max()), candidates[np.unique([int(np.argmax(merit)) for merit in merits])]


def joint_errors(attacks: Sequence[tuple[np.ndarray, np.ndarray]]) -> Errors:
    """Return bounds from several scores of the same trials, each (with, without), jointly valid at `CONFIDENCE`."""
    level = 1 - (1 - CONFIDENCE) / len(attacks)
    each = [measured_errors(with_scores, without_scores, level) for with_scores, without_scores in attacks]
    return Errors(
        np.concatenate([one.false_positive for one in each]), np.concatenate([one.false_negative for one in each])
    )


@dataclass(frozen=True)
class ProfileTest:
    """A claimed curve against measured errors.

    `refuted`: some epsilon's claimed delta is below the measured bound.
    """

    epsilons: np.ndarray
    claimed: np.ndarray
    measured: np.ndarray

    @property
    def refuted(self) -> bool:
        return bool(np.any(self.measured > self.claimed))


def profile_test(errors: Errors, claim: Curve, epsilons: np.ndarray | None = None) -> ProfileTest:
    """Test the whole claimed curve at once: the error bounds hold jointly, so any number of epsilons may be tried."""
    grid = np.linspace(0.0, 8.0, 65) if epsilons is None else np.asarray(epsilons, dtype=float)
    claimed = np.maximum(finite(claim(grid), "claimed delta"), 0.0)  # closed forms may round below zero
    return ProfileTest(grid, claimed, errors.delta(grid))


def one_run_tail(*, correct: int, guesses: int, canaries: int, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return beta and slope: P(at least `correct` right guesses) <= beta + delta slope under (epsilon, delta)-DP, per
    epsilon.

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


def one_run_epsilon(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float = CONFIDENCE
) -> float:
    """Return a lower bound of epsilon at `delta`: the largest that is refuted, by `one_run_tail`."""

    def excess(epsilon: float) -> float:
        beta, slope = one_run_tail(correct=correct, guesses=guesses, canaries=canaries, epsilon=np.array([epsilon]))
        return float(beta[0] + delta * slope[0]) - (1 - confidence)

    return float(brentq(excess, 0.0, 50.0)) if excess(0.0) < 0 else 0.0


def one_run_mass(
    *, correct: int, guesses: int, canaries: int, inverse: Inverse, probability: float, size: int = 1
) -> np.ndarray:
    """Return (size,) the least total probability of all numbers of right guesses, if P(N >= correct) = `probability`.

    Above 1, N >= `correct` is less probable under every f-DP mechanism, f symmetric. After the recursion of
    Mahloujifar, Melis & Chaudhuri (2025, arXiv 2410.22235, `audit_rh_with_cap`), guesses with abstention, k = 2.

    Each of m = `canaries` records is in by a fair coin. The attacker guesses c' = `guesses` of the coins; N guesses are
    right, p_j = P(N = j). Let F(x) = 1 - f(x), concave, with g = F^-1 = `inverse`. Fix canary i, the other coins, and a
    set T. Let A_b be the outputs on which i is guessed to be b and the other right guesses are in T - 1. By f-DP,
    P(A_b | coin b) <= F(P(A_b | coin 1 - b)). Taking the mean over b, over the coins and over i, Jensen's inequality
    gives

        sum_{j in T} j p_j / m  <=  F( sum_{j in T} (c' - j + 1) p_{j-1} / m ).

    Write R_i = sum_{j >= i} j p_j / m and H_i = sum_{j >= i} (c' - j) p_j / m. With T = {i + 1, ...} this is
    H_i >= g(R_{i+1}). With S_i = P(N >= i) = (R_i + H_i) m / c', p_i is at least

        max(0, g(R_{i+1}) - H_{i+1}) m / (c' - i).

    The least S_0 takes all mass above as N = `correct`, and each p_i at that minimum. Proof: let (S', R') be feasible
    with S'_{i+1} >= S_{i+1} and R'_{i+1} - i S'_{i+1} / m >= R_{i+1} - i S_{i+1} / m. So R'_{i+1} >= R_{i+1}, and
    S'_i >= max(S'_{i+1}, (m g(R'_{i+1}) + m R'_{i+1} - i S'_{i+1}) / (c' - i)) >= S_i. R - i S / m keeps its order, as
    p_i adds nothing to it; so both inequalities hold with i - 1. They hold at i = c - 1, as R_c >= c S_c / m.
    """
    total = np.full(size, probability)
    right = total * correct / canaries
    for i in range(correct - 1, -1, -1):
        wrong = total * guesses / canaries - right
        least = np.maximum(0.0, inverse(np.minimum(right, 1.0)) - wrong) * canaries / (guesses - i)
        if not least.any():
            break  # neither changes any more
        total = total + least
        right = right + i * least / canaries
    return total


def one_run_refutes(
    *, correct: int, guesses: int, canaries: int, inverse: Inverse, confidence: float = CONFIDENCE
) -> bool:
    """Return whether so many right guesses refute a trade-off function; see `one_run_mass`.

    More right guesses refute more, so that a true claim is refuted with probability at most 1 - confidence.
    """
    known = {"correct": correct, "guesses": guesses, "canaries": canaries}
    return float(one_run_mass(**known, inverse=inverse, probability=1 - confidence)[0]) > 1 + 1e-9  # type: ignore[arg-type]


def one_run_mu(*, correct: int, guesses: int, canaries: int, confidence: float = CONFIDENCE) -> float:
    """Return a lower bound of mu of mu-GDP: the largest that is refuted by `one_run_mass`, found within 1e-4."""
    low, high = 0.0, LARGEST_MU
    while high - low > 1e-4:
        grid = np.linspace(low, high, 34)[1:-1]

        def inverse(y: np.ndarray, mu: np.ndarray = grid) -> np.ndarray:
            return np.asarray(ndtr(ndtri(y) - mu))

        found = one_run_mass(
            correct=correct, guesses=guesses, canaries=canaries, inverse=inverse, probability=1 - confidence,
            size=len(grid),
        )  # fmt: skip
        refuted = int((found > 1 + 1e-9).sum())  # a larger mu refutes less
        low, high = (low if not refuted else grid[refuted - 1]), (high if refuted == len(grid) else grid[refuted])
    return float(low)


def inverse_of(epsilons: np.ndarray, deltas: np.ndarray) -> Inverse:
    """Return g of a claimed curve, from its points: P(S) >= y leaves Q(S) at least this much.

    P <= e^eps Q + delta, and the same of the complement, at each point; the curve between the points is not used.
    """
    grown, gap = np.exp(epsilons)[:, None], finite(deltas, "claimed delta")[:, None]

    def inverse(y: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.maximum((y - gap) / grown, 1 - gap - grown * (1 - y)).max(axis=0))

    return inverse


def planned_guesses(*, mu: float, canaries: int, confidence: float = CONFIDENCE) -> int:
    """Return the even number of guesses that shows most, of canaries whose scores are N(mu, 1) and N(0, 1).

    It depends on the claim alone, so that it is chosen before the run.
    """
    best = (-1.0, 2)
    for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0):
        guesses = max(2, 2 * int(share * canaries / 2))

        def tails(d: float) -> tuple[float, float]:
            return float(ndtr(mu / 2 - d)), float(ndtr(-mu / 2 - d))

        d = brentq(lambda d, share=share: sum(tails(d)) - share, -1e-9, 40.0 + mu) if share < 1 else 0.0  # type: ignore[misc]
        correct = int(guesses * tails(d)[0] / sum(tails(d)))
        shown = one_run_mu(correct=correct, guesses=guesses, canaries=canaries, confidence=confidence)
        best = max(best, (shown, guesses))
    return best[1]


def one_run_guesses(scores: np.ndarray, present: np.ndarray, guesses: int) -> int:
    """Return the right guesses when the r/2 records of highest score are guessed in, and the r/2 of lowest score out.

    Raise UserError for scores that are not finite. Where the direction of the scores is not known beforehand, use
    `guesses_either_way`.
    """
    if not 2 <= guesses <= len(scores) or guesses % 2:
        raise invalid("guesses", guesses, f"an even integer in 2..{len(scores)}")
    order = np.argsort(finite(scores), kind="stable")
    half = guesses // 2
    return int(present[order[-half:]].sum() + (~present[order[:half]]).sum())


def guesses_either_way(scores: np.ndarray, present: np.ndarray, guesses: int) -> int:
    """Return the right guesses in the direction in which more are right: bounds from it fail twice as often.

    A caller gives each bound half of the probability that may fail.
    """
    return max(one_run_guesses(scores, present, guesses), one_run_guesses(-scores, present, guesses))
