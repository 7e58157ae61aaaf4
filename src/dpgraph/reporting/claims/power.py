"""How often the test of a claim calls it reproduced: where it is false (size), and where it is true (power).

Simulated at the suite's own number of seeds, with the seed-to-seed covariance that was measured between the compared
cells. A sum of one seed is normal around its true value; every draw estimates its standard error anew from its n sums,
so that the uncertainty of a standard error from a handful of seeds is in it. The standard deviation of a contrast is
the root mean square of its own and that of all contrasts of the claim, since few seeds estimate one badly.

*Size*: one comparison is false and just so, its contrasts at their margins; all others hold beyond doubt. The largest
rate over which one it is. *Power*: every contrast has its effect: the paper's printed difference where the paper prints
one that agrees with the claim, 0 where the claim is that two things differ by less than a margin, else 1 point above
the margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from dpgraph.randomness import numpy_generator
from dpgraph.reporting.claims.contrasts import LEVEL, Contrast

DRAWS, CHUNK = 4000, 500  # and how many at once
EFFECT = 1.0  # points, where the paper prints none


@dataclass(frozen=True)
class Above:
    """A contrast that is to be above a margin."""

    contrast: Contrast
    margin: float

    @property
    def effect(self) -> float:
        """The true value under the alternative."""
        printed = self.contrast.printed
        if self.margin < 0:  # not worse, or not other, by more than so much
            return 0.0
        return printed if printed is not None and printed > self.margin else self.margin + EFFECT


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
    pooled = np.sqrt((deviations**2).mean())
    wanted = np.sqrt((deviations**2 + pooled**2) / 2)
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
        true.append(_holds(comparisons, _statistics(means + effects - margins, errors, n), n).all(axis=1))
        false.append(_holds(comparisons, _statistics(means, errors, n), n))  # each at its margin
    return Strength(float(np.concatenate(false).mean(axis=0).max()), float(np.concatenate(true).mean()))


def together(one: Strength | None, others: Sequence[Strength]) -> Strength:
    """Of tests that must all hold, as if they were independent of each other."""
    parts = [*([] if one is None else [one]), *others]
    if not parts:
        return Strength(np.nan, np.nan)
    return Strength(max(part.size for part in parts), float(np.prod([part.power for part in parts])))


def _statistics(excess: np.ndarray, errors: np.ndarray, n: int) -> np.ndarray:
    """(R, P) values of Student's t; of a sum that never varied n equal signs, as in a sign test."""
    sure = float(stdtrit(n - 1, 1 - 0.5**n))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors > 0, excess / errors, np.where(excess > 0, sure, -np.inf))


def _holds(comparisons: Sequence[Ways], statistics: np.ndarray, n: int) -> np.ndarray:
    """(R, comparisons): whether each holds at the level, in one of its ways."""
    columns, start = [], 0
    for ways in comparisons:
        holds = np.zeros(len(statistics), dtype=bool)
        for way in ways:
            least = statistics[:, start : start + len(way)].min(axis=1)
            holds |= least > stdtrit(n - 1, 1 - LEVEL / len(ways))
            start += len(way)
        columns.append(holds)
    return np.stack(columns, axis=1)
