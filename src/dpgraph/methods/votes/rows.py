"""Statistics before gradients: a noisy mean of the rows decides which features are kept and what is taken off them.

Where there are few records for the noise, most features of a bag of words are noise only, and all rows have a large
common part. The mean costs one Gaussian release of sensitivity 1; what follows is a public function of it, record by
record.
"""

from __future__ import annotations

import numpy as np

from dpgraph.preparation.rows import unit_rows

ROWS = 1 << 13  # records at once


def noisy_sum(features: np.ndarray, std: float, generator: np.random.Generator) -> np.ndarray:
    """(F,) sum over all records (N, F), each of norm 1 or zero, plus N(0, std^2); a record moves it by at most 1."""
    total = np.zeros(features.shape[1])
    for start in range(0, len(features), ROWS):
        total += unit_rows(features[start : start + ROWS]).sum(axis=0)
    return np.asarray(total + std * generator.standard_normal(len(total)))


def scaled_rows(features: np.ndarray) -> np.ndarray:
    """(N, F) float32 records of norm 1, or zero."""
    result = np.empty(features.shape, dtype=np.float32)
    for start in range(0, len(features), ROWS):
        result[start : start + ROWS] = unit_rows(features[start : start + ROWS])
    return result


def centred_rows(features: np.ndarray, released: np.ndarray, std: float) -> np.ndarray:
    """(N, F') float32 records of norm 1, or zero: features whose released sum (F,) exceeds one std of its noise, less
    the part along the mean direction.

    Meant for features that are not negative, such as counts. Where no feature exceeds the noise, all are kept and
    nothing is taken off.
    """
    kept = np.flatnonzero(released > std)
    if not len(kept):
        return scaled_rows(features)
    direction = released[kept] / np.linalg.norm(released[kept])
    result = np.empty((len(features), len(kept)), dtype=np.float32)
    for start in range(0, len(features), ROWS):
        rows = unit_rows(features[start : start + ROWS, kept])
        result[start : start + ROWS] = unit_rows(rows - np.outer(rows @ direction, direction))
    return result
