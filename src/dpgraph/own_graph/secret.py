"""Noise for a release: every bit from the operating system's generator, every sum and its noise on one grid.

os.urandom is a cryptographically secure generator that keeps no state in this process, so there is no seed to leak.
Gaussian noise is N(0, std^2) rounded to multiples of a grid g, added to sums that are multiples of g. As x is one,
round(x + N) = x + round(N): the release is a function of the ideal Gaussian mechanism's answer, so that every
accountant holds as it is, and all values are on the same grid whatever x is (the attack of Mironov 2012 on the gaps
between floating-point numbers finds none). Choices have exact probabilities.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import Counter, Key
from dpgraph.engine.preparation.base import Order
from dpgraph.engine.training.noise import GaussianNoise, ReleaseNoise
from dpgraph.families.votes.ballots import GRID

FINE = 30  # noise std / grid is from 2^30 to 2^31
LARGEST = 2.0**52  # of an integer on the grid: sums and noise stay exact in float64
RELATIVE = 2.0**-46  # more than 30 times the error of `ndtri` and of the arithmetic after it
RAISED = 2.0**-10  # share by which noise on sums is raised; it has to cover what rounding moves
LEAST_DIGITS = 128  # binary digits of the numbers in `_resolved`


def words(count: int) -> np.ndarray:
    """Return (count,) uint64, uniform."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def uniform(count: int) -> np.ndarray:
    """Return (count,) float64 multiples of 2^-53 in [0, 1)."""
    return np.asarray((words(count) >> np.uint64(11)) * 2.0**-53)


def rounded_gaussian(count: int, scale: float, counter: Counter | None = None) -> np.ndarray:
    """Return (count,) float64 integers round(scale Z), Z standard normal, exactly so.

    Each number is found from 64 bits by the inverse distribution function. Where the bits, or the rounding of that
    function, leave two integers possible, more bits are drawn and it is evaluated with more digits. `counter`: whose
    numbers they are.
    """
    drawn = words(count)
    if counter is not None:
        counter.numbers += len(drawn)
    sign = np.where(drawn & np.uint64(1), -1.0, 1.0)
    tail = drawn >> np.uint64(1)  # |Z| has upper tail (tail + u) / 2^64, u uniform in [0, 1)
    size = -ndtri((tail.astype(np.float64) + 0.5) * 2.0**-64)
    with np.errstate(over="ignore"):
        width = 2.0**-64 * math.sqrt(2 * math.pi) * np.exp(size**2 / 2)  # of |Z| that these bits leave open
    value = scale * size
    error = scale * (RELATIVE * np.maximum(size, 1.0) + 4 * width)
    whole = np.rint(value)
    open_ = ~(np.abs(value - whole) + error < 0.5)
    for place in np.flatnonzero(open_):
        whole[place] = _resolved(int(tail[place]), scale)
    return np.asarray(sign * whole)


def _resolved(tail: int, scale: float) -> float:
    import mpmath

    bits = 64
    while True:
        with mpmath.workprec(bits + LEAST_DIGITS):
            ends = []
            for end in (tail, tail + 1):
                share = 1 - 2 * mpmath.mpf(end) / mpmath.mpf(2) ** bits
                ends.append(mpmath.inf if end == 0 else scale * mpmath.sqrt(2) * mpmath.erfinv(share))
            if ends[0] != mpmath.inf and mpmath.nint(ends[0]) == mpmath.nint(ends[1]):
                return float(mpmath.nint(ends[0]))
        tail, bits = (tail << 64) | int(words(1)[0]), bits + 64


def grid_of(std: float) -> float:
    """Return the largest power of two not above std 2^-30."""
    return float(2.0 ** (math.floor(math.log2(std)) - FINE))


def noised(values: np.ndarray, std: float, grid: float, counter: Counter | None = None) -> np.ndarray:
    """Round `values` to `grid` and add rounded Gaussian noise, exact in float64. Raise UserError beyond its range."""
    whole = np.rint(values / grid)
    noise = rounded_gaussian(whole.size, std / grid, counter).reshape(whole.shape)
    if max(np.abs(whole).max(initial=0), np.abs(noise).max(initial=0)) > LARGEST / 2:
        raise invalid("sum / noise", f"more than 2^{52 - FINE}", "fewer nodes or more noise, so that sums are exact")
    return np.asarray((whole + noise) * grid)


def exponentially_chosen(utilities: Sequence[int], epsilon: float) -> int:
    """Choose a place of `utilities` with probability proportional to exp(epsilon utility), exactly so.

    The place in which a uniform number falls among the cumulated probabilities; while the bits drawn of it leave two
    places possible, more are drawn and the probabilities are evaluated with more digits.
    """
    import mpmath

    bits, drawn = 64, int(words(1)[0])
    while True:
        with mpmath.workprec(bits + LEAST_DIGITS):
            weights = [mpmath.exp(mpmath.mpf(epsilon) * (int(one) - int(max(utilities)))) for one in utilities]
            total, error = mpmath.fsum(weights), mpmath.mpf(2) ** -(bits + LEAST_DIGITS // 2)
            bounds = [mpmath.fsum(weights[: place + 1]) / total for place in range(len(weights) - 1)]
            low, high = (mpmath.mpf(end) / mpmath.mpf(2) ** bits for end in (drawn, drawn + 1))
            places = {sum(bound <= low - error for bound in bounds), sum(bound < high + error for bound in bounds)}
        if len(places) == 1:
            return places.pop()
        drawn, bits = (drawn << 64) | int(words(1)[0]), bits + 64


class SecretGenerator:
    """A generator of the draws of prepared steps other than noise; it refuses all else."""

    def __init__(self) -> None:
        self.draws = self.numbers = 0

    def random(self, count: int) -> np.ndarray:
        self.draws, self.numbers = self.draws + 1, self.numbers + count
        return uniform(count)

    def choose(self, utilities: Sequence[int], epsilon: float) -> int:
        self.draws, self.numbers = self.draws + 1, self.numbers + len(utilities)
        return exponentially_chosen(utilities, epsilon)


class SecretReleases(ReleaseNoise):
    """Noise of releases besides the steps; its own counter. Sums have to be on a grid already."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.draws = self.numbers = 0

    def on(self, values: np.ndarray, std: float, unit: float) -> np.ndarray:
        """Add noise as `ReleaseNoise` does. Raise TypeError for values that are no multiples of `unit`.

        `std` is what was accounted for; the noise is more by the share `RAISED`, but not on counts, which no rounding
        moved: a theorem on caps says with which probability noisy degrees lie too low or too high.
        """
        if not std > 0:
            raise TypeError("a release without noise")
        whole = values.astype(np.float64)
        if (whole % unit).any():
            raise TypeError(f"a release of sums that are no multiples of {unit}")
        raised = std if unit >= 1 else std * (1 + RAISED)
        released = noised(whole, raised, min(unit, max(1 / GRID, grid_of(raised))), self)
        self.draws += 1
        self.stds.append(std)
        return released


class SecretOrder(Order):
    """The source of all randomness of a release: the operating system."""

    def generator(self, role: str) -> Any:
        if role not in ("batches", "choice of the reader"):
            raise TypeError(f"{role}: no part of a release may come from a seed")
        return self._enter(role, SecretGenerator())

    def noise(self, std: float | tuple[float, ...], role: str = "noise") -> GaussianNoise:
        noise: GaussianNoise = self._enter(role, SecretNoise(std, torch.Generator()))
        return noise

    def release_noise(self, role: str) -> ReleaseNoise:
        noise: ReleaseNoise = self._enter(role, SecretReleases())
        return noise

    def secret_key(self, role: str) -> Key:
        raise TypeError(f"{role}: no part of a release may come from a seed")

    def names(self, role: str) -> tuple[str | int, ...]:
        raise TypeError(f"{role}: no part of a release may come from a seed")

    def _enter(self, role: str, counter: Any) -> Any:
        """Open a stream without a name, so that it cannot be drawn again."""
        self.ledger.open(role, ("dpgraph", "", role, self.seed), self.seed, secret=True, counter=counter)
        return counter


@dataclass
class SecretNoise(GaussianNoise):
    """Noise of the steps, on float64 sums, from the operating system; `generator` is not used.

    `std` is what was accounted for; the noise is more by the share `RAISED`.
    """

    def add(self, sums: Any) -> None:
        self.draws += 1
        std = float(self.std) * (1 + RAISED)  # type: ignore[arg-type]
        grid = grid_of(std)
        for tensor in sums:
            if tensor.dtype != torch.float64:
                raise TypeError(f"sum of {tensor.dtype}: expected float64 for a release")
            tensor.copy_(torch.from_numpy(noised(tensor.numpy(), std, grid, self)))

    def fill(self, buffers: Any) -> float:
        raise TypeError("noise for a release is added to whole sums")


def check_slack(*, roots: int, parameters: int, noise_over_clip: float) -> None:
    """Raise UserError where rounding may move a step's sum by more than the raised noise pays for.

    In clip norms: float64 sums of N terms of norm <= 1 are off by at most N^2 2^-52 (neighbours: twice N^2 2^-53),
    and rounding d sums to the grid moves them by sqrt(d) g.
    """
    left = RAISED / 2 - math.sqrt(parameters) * noise_over_clip * 2.0**-FINE
    most = math.isqrt(max(0, math.floor(left * 2.0**52)))
    if roots > most:
        way = "a part of the graph" if most > 1 else "a larger epsilon or fewer features"
        raise invalid("nodes", roots, f"at most {most}, so that sums are exact enough for a release: give {way}")


def check_vote_slack(*, classes: int, mass: float, floor: int, ids: int) -> None:
    """Raise UserError where rounding votes may move more, under node-remove, than the raised noise pays for.

    A receiver that leaves moves the other votes of a voter of degree d above its cap by B / (d (1 + sqrt(1 - 1 / d))),
    d > m; the theorem charges B / (2 m). Rounding both sides to multiples of 2^-30 adds at most 2^-30 sqrt(d (C + 1)).
    Up to d = 2 m the raised noise has to cover that, beyond it the surplus of the charge does, at least B / (8 m).
    """
    norm, size = math.sqrt(1 - 1 / classes + mass**2), classes + 1
    near = 2.0**-FINE * math.sqrt(2 * floor * size) <= RAISED / 2 * norm / (2 * floor)
    far = 2.0**-FINE * math.sqrt(ids * size) <= norm / (8 * floor)
    if not (near and far):
        raise invalid(
            "classes", classes, "so few that rounded votes are exact enough for a release under node-remove: join some"
        )
