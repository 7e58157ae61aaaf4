"""Matrices with few bands that correlate the noise of consecutive steps (Choquette-Choo et al. 2023, banded DP-FTRL).

What is released is C G + Z: G (T, P) the sums of clipped gradients, Z independent noise, C (T, T) lower triangular with
b bands and columns of norm 1. Training reads G + C^-1 Z, which is a function of it. Everything here is made of public
numbers. Theorem M, docs/privacy.md, 12.12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpgraph.errors import invalid

MOST_STEPS = 1000  # of a matrix that is optimised: each evaluation multiplies T x T matrices
ITERATIONS = 60  # beyond, the error moves by less than a thousandth
FIRST_MOMENT = 0.9  # of Adam, whose updates are, but for their scale, those of this momentum
ROUNDED = 1e-9  # of a rate


def group_rate(*, rate: float, bands: int) -> float:
    """b q: the rate at which a record enters the batch of a step of its own group. Raises UserError beyond 1."""
    if bands < 1:
        raise invalid("bands", bands, "an integer >= 1")
    if not 0 < rate * bands <= 1 + ROUNDED:
        raise invalid("bands", bands, f"an integer <= 1 / sampling_rate = {1 / rate:.6g}: groups have the rate b q")
    return min(rate * bands, 1.0)


def participations(*, steps: int, bands: int) -> int:
    """ceil(T / b): steps of one group, of b that take turns. Raises UserError for more groups than steps."""
    if not 1 <= bands <= steps:
        raise invalid("bands", bands, f"an integer from 1 to steps = {steps}")
    return math.ceil(steps / bands)


@dataclass(frozen=True, eq=False)
class BandedMatrix:
    """C, lower triangular with b bands."""

    columns: np.ndarray  # (T, b) float64: columns[i, k] = C[i + k, i], 0 beyond the last row

    @property
    def steps(self) -> int:
        return len(self.columns)

    @property
    def bands(self) -> int:
        """b: places of the last number that is not 0, counted from the diagonal."""
        return int(np.flatnonzero(self.columns.any(axis=0)).max(initial=0)) + 1

    @property
    def sensitivity(self) -> float:
        """The largest norm of a column: by how much C G moves where one step's sum moves by 1."""
        return float(np.linalg.norm(self.columns, axis=1).max())

    @property
    def dense(self) -> np.ndarray:
        """(T, T)"""
        steps, width = self.columns.shape
        result = np.zeros((steps, steps))
        for band in range(width):
            rows = np.arange(band, steps)
            result[rows, rows - band] = self.columns[: steps - band, band]
        return result

    def row(self, step: int) -> np.ndarray:
        """(up to b,) C[step, step - k], the diagonal first."""
        back = np.arange(min(step + 1, self.columns.shape[1]))
        return np.asarray(self.columns[step - back, back])

    def errors(self, workload: np.ndarray) -> np.ndarray:
        """(n,) mean squares of W C^-1 Z for the rows of W (n, T) and noise of variance 1."""
        from scipy.linalg import solve_triangular

        return np.square(solve_triangular(self.dense, workload.T, trans="T", lower=True)).sum(axis=0)


def iterates(*, steps: int, momentum: float) -> np.ndarray:
    """(T, T) A: iterate t moves by -rate A[t] times the gradients, A[t, i] = 1 + m + ... + m^(t - i)."""
    powers = np.cumsum(momentum ** np.arange(steps))
    place = np.arange(steps)
    gaps = place[:, None] - place[None, :]
    return np.where(gaps >= 0, powers[np.maximum(gaps, 0)], 0.0)


def released_row(*, steps: int, momentum: float, averaged_share: float) -> np.ndarray:
    """(T,) the row of what is released: the mean of the last iterates, or the last one."""
    last = math.ceil(averaged_share * steps) if averaged_share else 1
    return np.asarray(iterates(steps=steps, momentum=momentum)[steps - last :].mean(axis=0))


def squared_error(matrix: BandedMatrix, *, momentum: float, averaged_share: float) -> tuple[float, float]:
    """Mean squares of the noise in all iterates, on average, and in what is released; per variance and squared rate."""
    steps = matrix.steps
    every = matrix.errors(iterates(steps=steps, momentum=momentum)).mean()
    last = released_row(steps=steps, momentum=momentum, averaged_share=averaged_share)
    return float(every), float(matrix.errors(last[None]).sum())


@lru_cache(maxsize=16)
def best_matrix(*, steps: int, bands: int, momentum: float, averaged_share: float) -> BandedMatrix:
    """The C of so many bands with columns of norm at most 1 that is best for SGD at a constant learning rate.

    What is least is the sum of two mean squares, each in units of its workload's: the noise in all iterates, at which
    gradients are taken, and in what is released. L-BFGS from the square root of prefix sums, (1 - z)^(-1/2) cut to b
    bands; the noise in every iterate keeps the diagonal away from 0. Raises UserError beyond MOST_STEPS.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import minimize

    participations(steps=steps, bands=bands)
    if steps > MOST_STEPS:
        raise invalid("steps", steps, f"at most {MOST_STEPS} with bands = {bands} > 1")
    every = iterates(steps=steps, momentum=momentum)
    last = released_row(steps=steps, momentum=momentum, averaged_share=averaged_share)
    weights = np.vstack([every / np.linalg.norm(every), last / np.linalg.norm(last)]) / math.sqrt(2)
    inside = np.arange(steps)[:, None] + np.arange(bands)[None, :] < steps
    rows = (np.arange(steps)[:, None] + np.arange(bands)[None, :])[inside]
    owners = np.broadcast_to(np.arange(steps)[:, None], inside.shape)[inside]

    def unit(free: np.ndarray) -> np.ndarray:
        return np.asarray(free / np.linalg.norm(free, axis=1, keepdims=True))

    def error(flat: np.ndarray) -> tuple[float, np.ndarray]:
        free = np.where(inside, flat.reshape(steps, bands), 0.0)
        columns = unit(free)
        inverse = solve_triangular(BandedMatrix(columns).dense, np.eye(steps), lower=True)
        noise = weights @ inverse
        slope = -2 * (noise.T @ noise) @ inverse.T  # of the squared norm of W C^-1, by C
        by_column = np.zeros((steps, bands))
        by_column[inside] = slope[rows, owners]
        by_column -= (by_column * columns).sum(axis=1, keepdims=True) * columns
        return float(np.square(noise).sum()), (by_column / np.linalg.norm(free, axis=1, keepdims=True)).ravel()

    start = np.cumprod(np.concatenate([[1.0], (2 * np.arange(1, bands) - 1) / (2 * np.arange(1, bands))]))
    first = unit(np.where(inside, np.broadcast_to(start, inside.shape), 0.0))
    options: dict[str, Any] = {"maxiter": ITERATIONS}
    found = minimize(error, first.ravel(), jac=True, method="L-BFGS-B", options=options).x
    columns = unit(np.where(inside, found.reshape(steps, bands), 0.0))
    if not (np.isfinite(columns).all() and (columns[:, 0] > 0).all()):
        columns = first
    columns = columns / np.maximum(np.linalg.norm(columns, axis=1, keepdims=True), 1.0)
    columns.flags.writeable = False
    return BandedMatrix(columns)
