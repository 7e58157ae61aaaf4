"""A noisy mean of the rows, which decides which features are kept and which direction rows lose.

Where records are few for the noise, most features of a bag of words are noise, and all rows share a large common part.
The mean costs one Gaussian release of sensitivity 1. What follows is a public function of it, the same for every record
of training and for new ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.families.votes.ballots import GRID, pieces

ROWS = 1 << 13  # records at once
BEYOND = 4.0  # standard deviations of the squared norm of noise alone
FEW_FEATURES, LARGE_MEAN = 16, 0.8  # with so few, a direction is much of a record and goes only beyond this square


def row_sum(features: np.ndarray) -> np.ndarray:
    """Return the sum over all records, each scaled to norm 1 or zero; a record moves it by at most 1.

    Rows are rounded towards zero to multiples of 1 / GRID, as votes are. So norms do not grow, and up to a million
    records the float64 sums are exact in any order.

    Args:
        features: (N, F) records.

    Returns:
        (F,) float64
    """
    total = np.zeros(features.shape[1])
    for part in pieces(len(features), ROWS):
        total += (np.trunc(unit_rows(features[part]) * GRID) / GRID).sum(axis=0)
    return total


@dataclass(frozen=True, eq=False)
class RowMean:
    """The released sum of the rows, with noise N(0, std^2) in each coordinate, and what follows from it.

    Features that are not negative, such as counts: those are kept whose sum exceeds one std, and rows lose their part
    along the mean direction. If no feature exceeds the noise, all are kept and rows lose no direction.

    Features that may be negative (`signed`): a sum near zero does not tell whether a feature matters, so all are kept.
    Rows lose their part along the sums beyond one std if all of these together exceed noise. With fewer than
    FEW_FEATURES they lose it only if the squared norm of the mean, over `rows` records, is more than LARGE_MEAN of a
    row's.
    """

    released: np.ndarray  # (F,) float64
    std: float
    signed: bool = False
    rows: int = 0  # number of records in the sum, public

    @property
    def _above(self) -> np.ndarray:
        """(F,) bool: sums beyond one std."""
        return np.asarray((np.abs(self.released) if self.signed else self.released) > self.std)

    @property
    def kept(self) -> np.ndarray:
        """(F',) kept columns, ascending."""
        above = np.flatnonzero(self._above)
        return above if len(above) and not self.signed else np.arange(len(self.released))

    @property
    def direction(self) -> np.ndarray:
        """(F',) direction of norm 1 that rows lose; zero if they lose none."""
        along = np.where(self._above, self.released, 0.0)[self.kept]
        count = len(self.released)
        noise = self.std**2 * (count + BEYOND * np.sqrt(2 * count)) if self.signed else 0.0  # chi-square's
        if self.signed and count < FEW_FEATURES:
            noise = max(noise, LARGE_MEAN * self.rows**2)
        if np.square(self.released).sum() <= noise or not along.any():
            return np.zeros_like(along)
        return np.asarray(along / np.linalg.norm(along))


def scaled_rows(features: np.ndarray, mean: RowMean | None = None) -> np.ndarray:
    """Return (N, F') float32 records of norm 1, or zero.

    With `mean` they have the kept features alone, less their part along its direction.
    """
    if mean is None:
        result = np.empty(features.shape, dtype=np.float32)
        for part in pieces(len(features), ROWS):
            result[part] = unit_rows(features[part])
        return result
    kept, direction = mean.kept, mean.direction
    result = np.empty((len(features), len(kept)), dtype=np.float32)
    for part in pieces(len(features), ROWS):
        rows = unit_rows(np.asarray(features[part])[:, kept])
        result[part] = unit_rows(rows - np.outer(rows @ direction, direction)) if direction.any() else rows
    return result
