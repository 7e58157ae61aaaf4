"""Solve a monotone accountant for its noise, its steps or its batch rate, always to the private side of the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.core.progress import progress
from dpgraph.privacy.accountants.parameters import LEAST_PRICE, Unknown

MAX_STEPS = 100_000
DIGITS = 4  # significant digits of a calibrated noise multiplier or rate
ASIDE = 1e-9  # relative: the step away from a point of so many digits, and far less than the way to the next one
NEAR = 1.002  # a secant step that leaves the bracket by no more is clamped to its last point, not halved
NOISE_RANGE = (1e-3, 1e7)
LOWEST_RATE = 1e-8
STALLED = 0.8  # an accountant has stalled where doubling the noise leaves more than this share of epsilon
EVALUATIONS: dict[Unknown, int] = {"noise": 8, "steps": 30, "rate": 12}  # about; for the progress bar

EpsilonAt = Callable[[Any], float]


def least_noise(epsilon_at: EpsilonAt, *, target: float, guess: float = 10.0) -> float:
    """Return the least noise, rounded up to four digits, with epsilon at most `target`.

    `dp_accounting.calibrate_dp_mechanism` (0.6.0, a relative tolerance of 1e-6) finds the same after this rounding,
    with 2.3 times as many evaluations and 1.75 times the CPU time. It does not use that epsilon is nearly a power of
    the noise, that four digits are enough, and that accountants may stall.

    Raises UserError where no noise meets the target, or only one at which the accountant has stalled: orders up to 9.9,
    for example, leave a least epsilon of about ln(1 / delta) / 8.9 that no noise lowers, until rounding makes it 0.
    """
    low, high = NOISE_RANGE
    evaluated: dict[float, float] = {}
    noise = _crossing(epsilon_at, target, low, high, guess, evaluated, _noise)
    if noise is None or (not _moves(evaluated, noise) and _stalled(epsilon_at, max(noise * (1 - 1e-2), low))):
        least = _least_shown(epsilon_at)
        raise invalid(
            "epsilon",
            target,
            f"a target >= {least:.4g}: below, doubling the noise lowers this accountant's epsilon by less than a fifth",
        )
    return noise


def most_steps(epsilon_at: EpsilonAt, *, target: float) -> int:
    """Return the most steps with epsilon at most `target`. Raise UserError where one step exceeds it."""
    if (least := epsilon_at(1)) > target:
        raise invalid("epsilon", target, f"a target >= {least:.4g}, the epsilon of a single step at this noise")
    most, first_too_many = 1, 2
    while first_too_many <= MAX_STEPS and epsilon_at(first_too_many) <= target:
        most, first_too_many = first_too_many, 2 * first_too_many
    first_too_many = min(first_too_many, MAX_STEPS + 1)
    while first_too_many - most > 1:
        middle = (most + first_too_many) // 2
        if epsilon_at(middle) <= target:
            most = middle
        else:
            first_too_many = middle
    return most


def highest_rate(epsilon_at: EpsilonAt, target: float) -> float:
    """Return the largest Poisson rate, rounded down to four digits; 1 where even that meets the target."""
    if epsilon_at(1.0) <= target:
        return 1.0
    if (least := epsilon_at(LOWEST_RATE)) > target:
        raise invalid("epsilon", target, f"a target >= {least:.4g}, the epsilon at the rate {LOWEST_RATE:g}")

    def rate(inverse: float) -> float:  # the returned rate was evaluated, to the last bit
        return _rounded(1 / inverse, math.floor)

    def epsilon_at_inverse(inverse: float) -> float:
        return epsilon_at(rate(inverse))

    inverse_rate = _crossing(epsilon_at_inverse, target, 1.0, 1 / LOWEST_RATE, 10.0, {}, _inverse_rate)
    return rate(inverse_rate) if inverse_rate else LOWEST_RATE


def solved(unknown: Unknown, epsilon_at: EpsilonAt, *, target: float, guess: float | None = None) -> Any:
    """Return the value of `unknown` for the `target` epsilon; noise near `guess` is found sooner.

    Raises UserError where there is none.
    """
    if not LEAST_PRICE <= target < math.inf:
        raise invalid("epsilon", target, f"a finite number >= {LEAST_PRICE:g}")
    if unknown == "steps":
        return most_steps(epsilon_at, target=target)
    return (
        least_noise(epsilon_at, target=target, guess=guess or 10.0)
        if unknown == "noise"
        else highest_rate(epsilon_at, target)
    )


@contextmanager
def shown(unknown: Unknown, epsilon_at: EpsilonAt) -> Iterator[EpsilonAt]:
    """Report the evaluations of `epsilon_at` as progress."""
    with progress(f"solve for the {unknown}", EVALUATIONS[unknown], "evaluation") as bar:

        def evaluated(value: Any) -> float:
            epsilon = epsilon_at(value)
            bar.update()
            return epsilon

        yield evaluated


def _rounded(value: float, whole: Callable[[float], int]) -> float:
    exponent = math.floor(math.log10(value)) - DIGITS + 1
    slack = -1e-9 if whole is math.ceil else 1e-9
    return float(f"{whole(value / 10.0**exponent + slack)}e{exponent}")


def _noise(value: float, up: bool) -> float:
    return _rounded(value, math.ceil if up else math.floor)


def _inverse_rate(value: float, up: bool) -> float:
    """Return 1 / rate, where the rate has the digits."""
    return 1 / _rounded(1 / value, math.floor if up else math.ceil)


def _crossing(
    epsilon_at: EpsilonAt,
    target: float,
    low: float,
    high: float,
    start: float,
    evaluated: dict[float, float],
    rounded: Callable[[float, bool], float],
) -> float | None:
    """Return the least rounded point in (low, high] at which a decreasing function is at most `target`, or None.

    `rounded` gives the next point of four digits above or below, and only such points are tried. Secant steps in log-
    log scale, where the function is almost a line of slope -1, are kept inside the bracket; steps by factors of four
    where it is 0 or infinite. Fills `evaluated` with the tried points.
    """
    x, top = rounded(start, True), high
    gaps: dict[float, float] = {}
    clamped = False
    for _ in range(80):
        value = evaluated[x] = epsilon_at(x)
        if value <= target:
            high = min(high, x)
        else:
            low = max(low, x)
        first, last = rounded(low * (1 + ASIDE), True), rounded(high * (1 - ASIDE), False)  # strictly between both
        if first > last:
            break
        if 0 < value < math.inf:
            gaps[math.log(x)] = math.log(value) - math.log(target)
        zero = _secant(gaps)
        proposal = math.exp(min(zero, 700)) if zero is not None else x / 4 if value == 0 else 4 * x
        beyond = not first <= rounded(proposal, True) <= last
        if beyond and (clamped or not low / NEAR < proposal < high * NEAR):
            proposal, beyond = math.sqrt(low * high), False
        clamped = beyond  # once, or useless secants would creep along
        x = min(max(rounded(proposal, True), first), last)
    return None if high == top and epsilon_at(high) > target else high


def _secant(gaps: dict[float, float]) -> float | None:
    """Return the zero of the line through the two points nearest to zero; through one point a line of the usual slope.

    Epsilon decreases as 1 / noise where noise is large, and several times faster around one clip norm.
    """
    nearest = sorted(gaps.items(), key=lambda item: abs(item[1]))[:2]
    if not nearest:
        return None
    (x0, y0), (x1, y1) = nearest[0], nearest[-1]
    slope = (y1 - y0) / (x1 - x0) if x1 != x0 and y1 != y0 else (-1.0 if x0 > math.log(3) else -4.0)
    return x0 - y0 / min(slope, -0.1)


def _moves(evaluated: dict[float, float], noise: float) -> bool:
    """Return whether the evaluated points show that epsilon still decreases around `noise`, without a jump."""
    here = evaluated.get(noise, 0.0)
    near = [x for x, value in evaluated.items() if noise / 2 <= x < noise * 0.98 and value < math.inf]
    steepness = -math.log(STALLED) / math.log(2)
    return here > 0 and any(math.log(evaluated[x] / here) > 2 * steepness * math.log(noise / x) for x in near)


def _stalled(epsilon_at: EpsilonAt, noise: float) -> bool:
    if noise / 2 <= NOISE_RANGE[0]:
        return False
    before = epsilon_at(noise / 2)
    return 0 < before < math.inf and epsilon_at(noise) > STALLED * before


def _least_shown(epsilon_at: EpsilonAt) -> float:
    """Return epsilon at the least noise at which the accountant has stalled."""
    low, high = NOISE_RANGE[0], 4 * NOISE_RANGE[0]
    while high < NOISE_RANGE[1] and not _stalled(epsilon_at, high):
        low, high = high, 4 * high
    while high / low > 1 + 1e-2:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _stalled(epsilon_at, middle) else (middle, high)
    return epsilon_at(low)
