"""How often the test of a claim calls it reproduced: where it is false (size), and where it is true (power).

Simulated at the suite's own number of seeds, with the seed-to-seed covariance that was measured between the compared
cells. A sum of one seed is normal around its true value; every draw estimates its standard error anew from its n sums,
so that the uncertainty of a standard error from a handful of seeds is in it. The standard deviation of a contrast is
the root mean square of its own and that of all contrasts of the claim, since few seeds estimate one badly.

*Size*, its supremum over the null: one comparison is false and all others hold beyond doubt. For the false one to hold
most often, of each of its ways (an OR) one contrast is just at its margin and the others of that way (an AND) are
beyond doubt: that contrast which is called above its margin most often. The largest rate over the comparisons. How
often a single contrast at its margin is called is known (Student's t), so that only how far the ways of a comparison
overlap is simulated; the largest of many simulated rates would be above all of the true ones.

*Power*: of each comparison one way is true, the one that is found most often, and no other counts. Every contrast of it
has its effect: the paper's printed difference where the paper prints one that agrees with the claim (on data sets that
are not the paper's, the mean of those of the paper's), 0 where the claim is that two things differ by less than a
margin and nothing greater is printed, what the statement names where nothing is printed and it names a size, else 1
point above the margin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise

import numpy as np
from scipy.special import stdtrit

from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.claims.contrasts import LEVEL, Contrast

DRAWS, CHUNK = 4000, 500  # and how many at once
EFFECT = 1.0  # points, where the paper prints none


class EffectFrom(StrEnum):
    """Of the effect under which power is simulated."""

    PRINTED = "the paper's printed difference"
    PRINTED_ELSEWHERE = "the paper's printed difference, mean over its own data sets"
    ASSERTED = "the difference that the statement names"
    UNIT = f"{EFFECT:g} point above the margin: the paper prints none that agrees"
    EQUAL = "no difference, as claimed"


@dataclass(frozen=True)
class Above:
    """A contrast that is to be above a margin."""

    contrast: Contrast
    margin: float
    asserted: float | None = None  # by the statement

    @property
    def effect(self) -> float:
        """The true value under the alternative."""
        match self.source:
            case EffectFrom.EQUAL:
                return 0.0
            case EffectFrom.ASSERTED:
                return float(self.asserted or 0.0)
            case EffectFrom.PRINTED | EffectFrom.PRINTED_ELSEWHERE:
                return float(self.contrast.printed or 0.0)
        return self.margin + EFFECT

    @property
    def source(self) -> EffectFrom:
        """Where the effect is from."""
        printed = self.contrast.printed
        lenient = self.margin < 0 and self.contrast.difference  # not worse by more than so much
        if lenient and not (printed is not None and printed > 0):
            return EffectFrom.EQUAL
        if not lenient and self.asserted is not None:
            return EffectFrom.ASSERTED
        if printed is None or printed <= self.margin:
            return EffectFrom.UNIT
        return EffectFrom.PRINTED_ELSEWHERE if self.contrast.printed_elsewhere else EffectFrom.PRINTED


Ways = tuple[tuple[Above, ...], ...]


@dataclass(frozen=True)
class Strength:
    size: float
    power: float


def strength(comparisons: Sequence[Ways]) -> Strength | None:
    """Of the test that calls a claim reproduced if all its comparisons hold, each in one of its ways; None: of none."""
    if not comparisons:
        return None
    parts = [part for ways in comparisons for way in ways for part in way]
    if not parts or any(len(part.contrast.residuals) < 2 for part in parts):
        return Strength(np.nan, np.nan)
    n = min(len(part.contrast.residuals) for part in parts)
    residuals = np.stack([part.contrast.residuals[:n] for part in parts])  # (P, n)
    deviations = np.sqrt((residuals**2).sum(axis=1) / (n - 1))
    wanted = np.sqrt((deviations**2 + (deviations**2).mean()) / 2)
    # one that never varied in these seeds gets independent noise of the pooled size
    factors = np.divide(wanted, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    still = deviations == 0
    scaled = (residuals * factors[:, None]).T / np.sqrt(n - 1)  # (n, P)
    margins = np.array([part.margin for part in parts])
    effects = np.array([part.effect for part in parts])
    random = numpy_generator("dpgraph", "power of claims", n, len(parts))
    true, false = [], []
    for _ in range(DRAWS // CHUNK):
        drawn = random.standard_normal((CHUNK, n, n)) @ scaled  # (R, n, P)
        drawn[:, :, still] = wanted[still] * random.standard_normal((CHUNK, n, int(still.sum())))
        means, errors = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / np.sqrt(n)  # (R, P)
        true.append(_statistics(means + effects - margins, errors, n))
        false.append(_statistics(means, errors, n))  # each at its margin
    size = _size(comparisons, np.concatenate(false), wanted > 0, n)
    return Strength(size, _power(comparisons, np.concatenate(true), n))


def together(one: Strength | None, others: Sequence[Strength]) -> Strength:
    """Of tests that must all hold, as if they were independent of each other: one false, the others beyond doubt."""
    parts = [*([] if one is None else [one]), *others]
    if not parts:
        return Strength(np.nan, np.nan)
    return Strength(max(part.size for part in parts), float(np.prod([part.power for part in parts])))


def _statistics(excess: np.ndarray, errors: np.ndarray, n: int) -> np.ndarray:
    """(R, P) values of Student's t; of a sum that never varied n equal signs, as in a sign test."""
    sure = float(stdtrit(n - 1, 1 - 0.5**n))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors > 0, excess / errors, np.where(excess > 0, sure, -np.inf))


def _size(comparisons: Sequence[Ways], at_margins: np.ndarray, varies: np.ndarray, n: int) -> float:
    """Largest rate at which a comparison holds though in each of its ways one contrast is at its margin only."""
    rates = []
    for columns in _columns(comparisons):
        critical = _critical(LEVEL / len(columns), n)
        called = [at_margins[:, way] > critical for way in columns]  # of each way (R, its contrasts)
        chosen = [int(way.mean(axis=0).argmax()) for way in called]
        each = np.stack([way[:, one] for way, one in zip(called, chosen, strict=True)])  # (ways, R)
        known = sum(LEVEL / len(columns) for way, one in zip(columns, chosen, strict=True) if varies[way][one])
        overlap = np.maximum(each.sum(axis=0) - 1, 0).mean()
        rates.append(max(0.0, float(known - overlap)))
    return max(rates)


def _power(comparisons: Sequence[Ways], statistics: np.ndarray, n: int) -> float:
    """Rate at which each comparison holds in one way, the one that is found most often."""
    holds = np.ones(len(statistics), dtype=bool)
    for columns in _columns(comparisons):
        critical = _critical(LEVEL / len(columns), n)
        ways = np.stack([(statistics[:, way] > critical).all(axis=1) for way in columns])
        holds &= ways[ways.mean(axis=1).argmax()]
    return float(holds.mean())


def _columns(comparisons: Sequence[Ways]) -> Iterator[list[slice]]:
    """Yield the columns of each comparison's ways."""
    start = 0
    for ways in comparisons:
        ends = list(accumulate((len(way) for way in ways), initial=start))
        yield [slice(first, last) for first, last in pairwise(ends)]
        start = ends[-1]


def _critical(level: float, n: int) -> float:
    return float(stdtrit(n - 1, 1 - level))
