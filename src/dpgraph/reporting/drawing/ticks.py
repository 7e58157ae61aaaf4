"""Ticks at given values: all of them are marked, and those are labelled whose labels do not touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

LETTER = 0.066  # inches of a tick label
GAP = 0.06  # inches between two


def set_ticks(
    axes: Axes, texts: Mapping[float, str], inches: Mapping[float, float], others: Sequence[float] = ()
) -> None:
    """texts: label by value; inches: where a value is on the axis; others: values that have no tick without a label.

    Labels of the largest and the least value come first.
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
