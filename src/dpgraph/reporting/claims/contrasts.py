"""Weighted sums of means, their one-sided t tests, and size and power of tests that are made of them.

The test is of each seed's own sum where all cells ran the same seeds. How often the test of a claim calls it
reproduced, where it is false (size) and where it is true (power), is simulated at each sample's own number of seeds,
with the covariance over seeds that was measured between the cells that share them; samples of unlike seeds are
independent. A sum of one seed is normal around its true value; every draw estimates its standard error and its degrees
of freedom anew, as the test does, so that the uncertainty of a standard error from a handful of seeds is in it. The
standard deviation of a sample is the root mean square of its own and that of all samples of the same seeds in the
claim, since few seeds estimate one badly.

*Size*, its supremum over the null. Worst case: one comparison is false. In each of its alternatives (OR) exactly one
contrast sits at its margin, the one that is called above it most often; all others hold with certainty. The largest
rate over the comparisons counts. How often a single contrast at its margin is called is known (Student's t), so that
only the overlap of a comparison's alternatives is simulated; the largest of many simulated rates would be too large.

*Power*: of each comparison one alternative is true, the one that is found most often, and no other counts. Each of its
contrasts has its effect: the paper's printed difference where the paper prints one that agrees with the claim (on other
data than the paper's, the mean over the paper's); 0 where the claim is that two things differ by less than a margin and
the paper prints no larger difference; the size that the claim `asserts`, where the paper prints none; else a hundredth
of the range above the margin, which is 1 point, or 1 of what has no largest value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, pairwise

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from dpgraph.core.randomness import numpy_generator

LEVEL = 0.05


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of means, sum_i w_i mean_i, with its standard error and degrees of freedom."""

    estimate: float
    error: float
    degrees: float
    n: int  # seeds of the smallest sample
    unit: str = "points"
    point: float = 1.0  # the effect where none is known: a hundredth of the range
    # each seed's sum, centred, by the seeds that it is of
    samples: Mapping[tuple, np.ndarray] = field(default_factory=dict, compare=False)
    printed: float | None = None  # what the paper's own numbers give for it, the mean over data sets that print all
    printed_elsewhere: bool = False  # on the paper's data sets, which are not those that are compared
    difference: bool = True  # weights add up to 0, so that its value is 0 where all means are equal
    by_data_set: Mapping[str, float] = field(default_factory=dict, compare=False)  # estimates, where it is of a mean

    def p_above(self, margin: float) -> float:
        """Return the p-value against "the true value is at most `margin`"; nan where a sample has one seed only."""
        return self._p(self.estimate - margin)

    def p_below(self, margin: float) -> float:
        """Return the p-value against "the true value is at least `margin`"."""
        return self._p(margin - self.estimate)

    def _p(self, excess: float) -> float:
        if self.n < 2:
            return np.nan
        if self.error == 0:  # every seed gave the same value: n equal signs, as in a sign test
            return 0.5**self.n if excess > 0 else 1.0
        return float(stdtr(self.degrees, -excess / self.error))


def contrast(terms: Iterable[tuple[float, str, pd.Series]]) -> Contrast:
    """Return the contrast of (weight, name, values by seed) terms.

    Terms of one name are one sample: their weights add up, and cancel.

    A seed stands for a split and an initialisation that cells have in common, so its values are correlated: cells with
    the same seeds count by each seed's own sum. Sums of unlike seeds (graphs with 16 and with 32) are taken as
    independent: Welch's test, with Satterthwaite's degrees of freedom; of one kind of seeds it is Student's.
    """
    weights: dict[str, float] = {}
    samples: dict[str, pd.Series] = {}
    for weight, name, values in terms:
        weights[name] = weights.get(name, 0.0) + weight
        samples[name] = values
    # (weight, values, seeds) of each sample: plain arrays, since a claim may have hundreds of contrasts
    parts = [(w, samples[name].to_numpy(float), tuple(samples[name].index)) for name, w in weights.items() if w]
    estimate = float(sum(weight * (values.mean() if len(values) else np.nan) for weight, values, _ in parts))
    n = min((len(values) for _, values, _ in parts), default=0)
    if n < 2:
        return Contrast(estimate, np.nan, np.nan, n)
    sums: dict[tuple, np.ndarray] = {}  # by the seeds they are of
    for weight, values, seeds in parts:
        sums[seeds] = sums.get(seeds, 0.0) + weight * values
    squares = np.array([each.var(ddof=1) / len(each) for each in sums.values()])
    square = squares.sum()
    degrees = float(_degrees(squares, np.array([len(each) for each in sums])))
    # Rounding of equal values leaves a variance of about (1e-16)^2, not zero.
    largest = max(abs(weight) * float(np.abs(values).max()) for weight, values, _ in parts)
    if square <= (1e-12 * max(1.0, largest)) ** 2:
        return Contrast(estimate, 0.0, np.inf, n, samples={seeds: np.zeros(len(seeds)) for seeds in sums})
    centred = {seeds: each - each.mean() for seeds, each in sums.items()}
    return Contrast(estimate, float(np.sqrt(square)), degrees, n, samples=centred)


def _degrees(squares: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return Satterthwaite's degrees of freedom of sums of means with (G, ...) squared errors, of (G,) seeds each."""
    weights = (1 / (sizes - 1)).reshape(-1, *([1] * (squares.ndim - 1)))
    total, parts = squares.sum(axis=0), (squares**2 * weights).sum(axis=0)
    return np.divide(total**2, parts, out=np.full_like(total, np.inf), where=parts > 0)


DRAWS, CHUNK = 4000, 500  # and how many at once


class EffectFrom(StrEnum):
    """Sources of the effect under which power is simulated."""

    PRINTED = "the paper's printed difference"
    PRINTED_ELSEWHERE = "the paper's printed difference, mean over its own data sets"
    ASSERTED = "the difference that was expected"
    UNIT = "a hundredth of the range above the margin: the paper prints none that agrees"
    EQUAL = "no difference, as claimed"


@dataclass(frozen=True)
class Above:
    """A contrast that is to be above a margin."""

    contrast: Contrast
    margin: float
    asserted: float | None = None  # by the statement

    @property
    def effect(self) -> float:
        """Return the true value under the alternative."""
        match self.source:
            case EffectFrom.EQUAL:
                return 0.0
            case EffectFrom.ASSERTED:
                return float(self.asserted or 0.0)
            case EffectFrom.PRINTED | EffectFrom.PRINTED_ELSEWHERE:
                return float(self.contrast.printed or 0.0)
        return self.margin + self.contrast.point

    @property
    def source(self) -> EffectFrom:
        """Return the source of the effect."""
        printed = self.contrast.printed
        lenient = self.margin < 0 and self.contrast.difference  # not worse by more than so much
        if lenient and not (printed is not None and printed > 0):
            return EffectFrom.EQUAL
        if not lenient and self.asserted is not None:
            return EffectFrom.ASSERTED
        if printed is None or printed <= self.margin:
            return EffectFrom.UNIT
        return EffectFrom.PRINTED_ELSEWHERE if self.contrast.printed_elsewhere else EffectFrom.PRINTED

    def p_larger(self, level: float) -> float:
        """Return the p-value against "at most the effect of the power, or one that a test at `level` finds half of the
        time"."""
        error, degrees = self.contrast.error, self.contrast.degrees
        found = error * float(stdtrit(degrees, 1 - level)) if error > 0 else 0.0
        return self.contrast.p_above(max(self.effect, self.margin + found))


Ways = tuple[tuple[Above, ...], ...]


@dataclass(frozen=True)
class Strength:
    size: float
    power: float


def strength(comparisons: Sequence[Ways]) -> Strength | None:
    """Return size and power of the test that all comparisons hold, each in one of its ways; None without any."""
    if not comparisons:
        return None
    parts = [part for ways in comparisons for way in ways for part in way]
    if not parts or any(part.contrast.n < 2 for part in parts):
        return Strength(np.nan, np.nan)
    groups = [_sample(seeds, parts) for seeds in dict.fromkeys(key for part in parts for key in part.contrast.samples)]
    sizes = np.array([len(scaled) for scaled, _ in groups])
    fewest = np.array([part.contrast.n for part in parts])
    excess = np.array([part.effect - part.margin for part in parts])
    random = numpy_generator("dpgraph", "power of claims", int(fewest.min()), len(parts))
    true, false = [], []
    for _ in range(DRAWS // CHUNK):
        drawn = [_drawn(scaled, still, random) for scaled, still in groups]
        means = np.sum([one for one, _ in drawn], axis=0)  # (R, P)
        squares = np.stack([square for _, square in drawn])  # (G, R, P)
        degrees = _degrees(squares, sizes)
        true.append(_p_values(means + excess, squares.sum(axis=0), degrees, fewest))
        false.append(_p_values(means, squares.sum(axis=0), degrees, fewest))  # each at its margin
    varies = np.any([(scaled != 0).any(axis=0) | (still > 0) for scaled, still in groups], axis=0)
    size = _size(comparisons, np.concatenate(false), varies)
    return Strength(size, _power(comparisons, np.concatenate(true)))


def _sample(seeds: tuple, parts: Sequence[Above]) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, P) factors that give (n, n) normal draws the covariance of these seeds' sums, 0 of parts without them.

    Also the (P,) standard deviations of sums that never varied: they get independent noise of the pooled size.
    """
    there = np.array([seeds in part.contrast.samples for part in parts])
    zeros = np.zeros(len(seeds))
    residuals = np.stack([part.contrast.samples.get(seeds, zeros) for part in parts])  # (P, n)
    deviations = np.sqrt((residuals**2).sum(axis=1) / (len(seeds) - 1))
    wanted = np.where(there, np.sqrt((deviations**2 + (deviations[there] ** 2).mean()) / 2), 0.0)
    factors = np.divide(wanted, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    scaled = (residuals * factors[:, None]).T / np.sqrt(len(seeds) - 1)
    return scaled, np.where(deviations == 0, wanted, 0.0)


def _drawn(scaled: np.ndarray, still: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return (R, P) means of draws, and the squares of their standard errors."""
    n = len(scaled)
    drawn = random.standard_normal((CHUNK, n, n)) @ scaled  # (R, n, P)
    lonely = still > 0
    drawn[:, :, lonely] = still[lonely] * random.standard_normal((CHUNK, n, int(lonely.sum())))
    return drawn.mean(axis=1), drawn.var(axis=1, ddof=1) / n


def together(one: Strength | None, others: Sequence[Strength]) -> Strength:
    """Return size and power of tests that must all hold, as if independent: one false, the others certain to hold."""
    parts = [*([] if one is None else [one]), *others]
    if not parts:
        return Strength(np.nan, np.nan)
    return Strength(max(part.size for part in parts), float(np.prod([part.power for part in parts])))


def _p_values(excess: np.ndarray, squares: np.ndarray, degrees: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return (R, P) p-values of t tests; for a sum that never varied n equal signs, as in a sign test."""
    with np.errstate(divide="ignore", invalid="ignore"):
        p = stdtr(degrees, -excess / np.sqrt(squares))
    return np.where(squares > 0, p, np.where(excess > 0, 0.5**n, 1.0))


def _size(comparisons: Sequence[Ways], at_margins: np.ndarray, varies: np.ndarray) -> float:
    """Return the largest rate at which a comparison holds although in each way one contrast is only at its margin."""
    rates = []
    for columns in _columns(comparisons):
        level = LEVEL / len(columns)
        called = [at_margins[:, way] < level for way in columns]  # of each way (R, its contrasts)
        chosen = [int(way.mean(axis=0).argmax()) for way in called]
        each = np.stack([way[:, one] for way, one in zip(called, chosen, strict=True)])  # (ways, R)
        known = sum(level for way, one in zip(columns, chosen, strict=True) if varies[way][one])
        overlap = np.maximum(each.sum(axis=0) - 1, 0).mean()
        rates.append(max(0.0, float(known - overlap)))
    return max(rates)


def _power(comparisons: Sequence[Ways], p: np.ndarray) -> float:
    """Return the rate at which each comparison holds in one way, the one that is found most often."""
    holds = np.ones(len(p), dtype=bool)
    for columns in _columns(comparisons):
        ways = np.stack([(p[:, way] < LEVEL / len(columns)).all(axis=1) for way in columns])
        holds &= ways[ways.mean(axis=1).argmax()]
    return float(holds.mean())


def _columns(comparisons: Sequence[Ways]) -> Iterator[list[slice]]:
    """Yield the columns of each comparison's ways."""
    start = 0
    for ways in comparisons:
        ends = list(accumulate((len(way) for way in ways), initial=start))
        yield [slice(first, last) for first, last in pairwise(ends)]
        start = ends[-1]
