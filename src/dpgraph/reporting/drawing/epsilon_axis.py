"""Ticks at given values, labelled where labels do not touch; and axes of epsilon.

On an axis of epsilon the suite's epsilons are ticks. It is logarithmic where epsilons span more than `WIDE`, and so are
the other ones of its figure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from dpgraph.reporting.formats import significant

LETTER = 0.066  # inches of a tick label
GAP = 0.06  # inches between two


def set_ticks(
    axes: Axes, texts: Mapping[float, str], inches: Mapping[float, float], others: Sequence[float] = ()
) -> None:
    """Set ticks, and labels where they do not touch; the largest and the least value are labelled first.

    Args:
        axes: Axes whose x axis is set.
        texts: Label by value.
        inches: Position on the axis by value, in inches.
        others: Values that have a tick only with a label.
    """
    first = sorted(value for value in texts if value not in others)
    kept: list[float] = []
    for value in dict.fromkeys([*first[-1:], *first[:1], *first, *others]):
        if all(abs(inches[value] - inches[one]) >= _half(texts[value]) + _half(texts[one]) + GAP for one in kept):
            kept.append(value)
    kept.sort()
    rest = [value for value in first if value not in kept]
    axes.xaxis.set_major_locator(FixedLocator(kept))
    axes.xaxis.set_major_formatter(FixedFormatter([texts[value] for value in kept]))
    axes.xaxis.set_minor_locator(FixedLocator(rest) if rest else NullLocator())
    axes.xaxis.set_minor_formatter(FixedFormatter([""] * len(rest)))


def _half(text: str) -> float:
    return len(text) * LETTER / 2


FEW = 4  # ticks, below which values between them cannot be read
WIDE = 4.0  # largest / smallest from which the axis is logarithmic
NEAR = 1.6  # ratio within which a value belongs to a target
EDGE, MOST_EDGE = 0.09, 0.3  # shares of the axis before its first value and after its last


def is_wide(targets: Iterable[float], reached: Iterable[float]) -> bool:
    """Return whether an axis of these values is logarithmic."""
    values = [value for part in _used(targets, reached) for value in part]
    return bool(values) and max(values) / min(values) > WIDE


def _used(targets: Iterable[float], reached: Iterable[float]) -> tuple[list[float], list[float]]:
    """Return what the axis shows: no target unless a value is near one of them."""
    asked, known = _positive(targets), _positive(reached)
    near = not known or any(_near(value, target) for value in known for target in asked)
    return asked * near, known


def epsilon_axis(
    axes: Axes,
    targets: Iterable[float],
    reached: Iterable[float],
    width: float,
    margin: float,
    wide: bool | None = None,
) -> float:
    """Set scale, limits and ticks; return the smallest distance between two ticks in inches.

    The targets are ticks, with or without a result, unless no value is near any of them: proved epsilons may be far
    from the target of a paper's formula. Beyond the targets round numbers are ticks, or the largest value where no
    round number is that large. Finer numbers between them are ticks where fewer than `FEW` would be left for values
    that are near no target.

    Args:
        axes: Axes whose x axis is set.
        targets: The suite's epsilons in units of the axis.
        reached: Values of the points.
        width: Width of the axes in inches.
        margin: Least distance in inches from the first and the last value to the ends of the axis (`marks.margin`).
        wide: Whether the axes of a figure are logarithmic; None: `is_wide` decides.
    """
    logarithmic = is_wide(targets, reached) if wide is None else wide
    targets, reached = _used(targets, reached)
    values = targets + reached
    if not values:
        axes.set_xticks([], [])
        return width / 2
    low, high = min(values), max(values)
    axes.set_xscale("log" if logarithmic else "linear")
    to, back = (math.log, math.exp) if logarithmic else (float, float)
    share = min(max(EDGE, margin / width), MOST_EDGE)
    beyond = share / (1 - 2 * share) * (to(high) - to(low)) or (0.4 if logarithmic else 0.4 * high)
    start, end = to(low) - beyond, to(high) + beyond
    axes.set_xlim(back(start), back(end))
    ticks = {*targets, *_round(low, high, targets)}
    between = any(not any(_near(value, target) for target in targets) for value in reached)
    if targets and len(ticks) < FEW and between:
        ticks = {*targets, *(value for value in _finer(low, high, logarithmic) if low <= value <= high)}
    places = {value: (to(value) - start) / (end - start) * width for value in ticks}
    others = sorted(set(places) - set(targets))
    set_ticks(axes, {value: tick(value) for value in places}, places, others)
    at = sorted(places[value] for value in (targets or others))
    return float(np.diff(at).min()) if len(at) > 1 else width / 2


def _positive(values: Iterable[float]) -> list[float]:
    return sorted({float(value) for value in values if 0 < value < math.inf})


def _near(value: float, target: float) -> bool:
    return max(value / target, target / value) <= NEAR


def _round(low: float, high: float, targets: list[float]) -> list[float]:
    """Return round numbers from low to high beyond all targets, or all of them without a target.

    `high` is one of them where no other tick is near it.
    """
    inside = round_numbers(low, high)
    if not targets:
        return inside
    beyond = [value for value in inside if value * NEAR < min(targets) or value > NEAR * max(targets)]
    return [*beyond, high] if max([*beyond, *targets]) * NEAR < high else beyond


def _finer(low: float, high: float, logarithmic: bool) -> list[float]:
    """Return more ticks: equal steps on a linear axis, more digits on a logarithmic one."""
    if not logarithmic:
        return [float(value) for value in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [float(f"{step * 10.0**power:.6g}") for power in powers for step in (1, 2, 3, 5, 7)] + [high]


def tick(value: float) -> str:
    """Return a value as text, with at most three digits and thousands short: proved epsilons may be that large.

    >>> tick(0.5), tick(136.51), tick(5000.0), tick(200000.0), tick(2e6)
    ('0.5', '137', '5k', '200k', '2M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{significant(value / unit)}{name}"
    return significant(value)


def round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, or finer numbers where these are fewer than two.

    >>> round_numbers(0.9, 25), round_numbers(11, 19)
    ([1.0, 2.0, 5.0, 10.0, 20.0], [12.0, 15.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8)):
        values = (float(f"{step * 10.0**power:.6g}") for power in powers for step in steps)
        inside = [value for value in values if low <= value <= high]
        if len(inside) >= 2:
            return inside
    return inside or [float(f"{math.sqrt(low * high):.2g}")]
