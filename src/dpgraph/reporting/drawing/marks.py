"""Curves with intervals, horizontal lines and printed numbers."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpgraph.methods.looks import Look
from dpgraph.reporting.drawing.canvas import GREY
from dpgraph.reporting.quantities import Quantity

BAND = 0.13  # opacity of an interval
SINGLE = 6.0  # width of the interval of a curve of one point
REFERENCE: dict[str, Any] = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.0}


def sample(style: Look, marks: bool = True) -> Line2D:
    """A line of a legend."""
    shape: dict[str, Any] = {"linestyle": style.line, "markeredgecolor": "white", "markeredgewidth": 0.5}
    return Line2D([], [], color=style.colour, marker=style.marker if marks else "", **shape)


def curve(axes: Axes, x: Any, rows: pd.DataFrame, style: Look, shown: Quantity, marks: int = 100) -> None:
    """Means of ours with their interval (columns mean, ci_low, ci_high); about `marks` points are marked, or none.

    Student's interval of few seeds may leave the quantity's range (0 to 100 %), its drawing does not.
    """
    low, high = (rows[name].to_numpy(float).clip(shown.low, shown.high) for name in ("ci_low", "ci_high"))
    if len(rows) == 1:  # an area of no width is invisible
        axes.vlines(x, low, high, color=style.colour, alpha=2 * BAND, linewidth=SINGLE)
    else:
        axes.fill_between(x, low, high, color=style.colour, alpha=BAND, linewidth=0)
    shape: dict[str, Any] = {"marker": style.marker, "markeredgecolor": "white", "markeredgewidth": 0.5}
    every = math.ceil(len(rows) / marks) if marks else 1
    shape["markevery"] = ((len(rows) - 1) % every, every)  # the last one always
    y = rows["mean"].to_numpy(float)
    axes.plot(x, y, color=style.colour, linestyle=style.line, zorder=3, **(shape if marks else {}))


def horizontal(axes: Axes, row: pd.Series, style: Look, shown: Quantity) -> None:
    """A mean of ours that does not depend on x, with its interval."""
    if not math.isnan(row["ci_low"]):
        low, high = max(row["ci_low"], shown.low), min(row["ci_high"], shown.high)
        axes.axhspan(low, high, color=style.colour, alpha=BAND, linewidth=0)
    axes.axhline(row["mean"], color=style.colour, linestyle=style.line, linewidth=1.2)


def reference_line(axes: Axes, rows: pd.DataFrame) -> None:
    """The chance baseline (column reference), where the quantity has one."""
    if has_reference(rows):
        axes.axhline(float(rows["reference"].mean()), **REFERENCE, zorder=1)


def reference_handle(points: pd.DataFrame, shown: Quantity) -> dict[str, Line2D]:
    return {shown.reference_label: Line2D([], [], **REFERENCE)} if has_reference(points) else {}


def has_reference(points: pd.DataFrame) -> bool:
    return "reference" in points and bool(points["reference"].notna().any())


def hollow(axes: Axes, x: Any, y: Any, std: Any, style: Look, **options: Any) -> None:
    """Printed numbers, with their std where the paper prints one."""
    axes.errorbar(
        x,
        y,
        yerr=std,
        fmt=style.marker,
        color=style.colour,
        markerfacecolor="white",
        markersize=6.5,
        capsize=2,
        linewidth=0.9,
        zorder=4,
        clip_on=False,
        **options,
    )
