"""Curves with intervals, horizontal lines and printed numbers.

Every measured point has its mark. Only `CURVE` or more points are joined. Marks of several series at one place stand
side by side (`Slot`), and no edge cuts a mark off.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import ScaledTranslation, Transform

from dpgraph.engine.methods.looks import Look
from dpgraph.reporting.drawing import words
from dpgraph.reporting.drawing.canvas import GREY
from dpgraph.reporting.quantities import Quantity

CURVE = 3  # points
BAND = 0.13  # opacity of an interval
STEP, STEP_OF_CURVES = 6.0, 2.0  # points of 1/72 inch between marks of two series, at most
SIZE = 4.5
# of equal weight for the eye
LARGER = {"*": 1.7, "P": 1.3, "X": 1.3, "d": 1.25, "^": 1.1, "v": 1.1, "<": 1.1, ">": 1.1}
UNFILLED = "x+|_1234"
REFERENCE: dict[str, Any] = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.0}
HOLLOW: dict[str, Any] = {"markerfacecolor": "white", "markersize": 6.0, "capsize": 2, "linewidth": 0.9, "zorder": 4,
                          "clip_on": False}  # fmt: skip
STROKE: dict[str, Any] = {"marker": [(-0.5, -1), (0.5, 1)], "markersize": 8, "color": "black", "markeredgewidth": 0.8,
                          "gid": "break"}  # fmt: skip
NO_BETTER = "#EDEDED"  # values no better than the reference
FAR = 1e6  # beyond every axis


def marked(style: Look, size: float = SIZE) -> dict[str, Any]:
    """Return options of a mark; its white edge keeps overlapping marks apart."""
    edge = (
        {"markeredgewidth": 1.2} if style.marker in UNFILLED else {"markeredgecolor": "white", "markeredgewidth": 0.4}
    )
    return {"marker": style.marker, "markersize": size * LARGER.get(style.marker, 1.0), **edge}


def sample(style: Look, line: bool = True) -> Line2D:
    """Return a line of a legend, or its mark alone."""
    shape = {**marked(style), "linestyle": style.line if line else ""}
    return Line2D([], [], color=style.colour, **shape)


def method_handles(points: pd.DataFrame, looks: Mapping[str, Look], line: bool = True) -> dict[str, Artist]:
    """Return a line of the legend for each method that has a mean, or its mark alone."""
    return {
        words.label(str(rows["label"].iloc[0])): sample(looks[str(method)], line=line)
        for method, rows in points[points["mean"].notna()].groupby("method", sort=False)
    }


@dataclass(frozen=True)
class Slot:
    """The position of a series among those with marks at the same x, so that they do not hide each other."""

    place: int = 0
    count: int = 1
    gap: float = 1.0  # inches from one x to the next

    def transform(self, axes: Axes, joined: bool) -> Transform:
        """Return the transform from data to screen; curves move less, since their lines are read between marks."""
        step = min(STEP_OF_CURVES if joined else STEP, 72 * 0.7 * self.gap / max(self.count, 1))
        figure = axes.get_figure()
        right = (self.place - (self.count - 1) / 2) * step / 72
        return axes.transData + ScaledTranslation(right, 0, figure.dpi_scale_trans)  # type: ignore[union-attr]


ALONE = Slot()


def margin(series: int) -> float:
    """Return the inches that the marks of so many series take left of the first x and right of the last."""
    return ((series - 1) / 2 * STEP + SIZE) / 72


def curve(
    axes: Axes,
    x: Any,
    rows: pd.DataFrame,
    style: Look,
    shown: Quantity,
    side: Slot = ALONE,
    ordered: bool = True,
    size: float = SIZE,
) -> None:
    """Draw means with their intervals (columns mean, ci_low, ci_high).

    A Student interval of few seeds may leave the quantity's range (0 to 100 %); its drawing does not.

    Args:
        axes: Axes to draw on.
        x: Position of each row.
        rows: Points of one series.
        style: Colour, marker and line.
        shown: The quantity on the y axis.
        side: Position among series with marks at the same x.
        ordered: Whether x has an order, so that points may be joined.
        size: Size of a mark in points of 1/72 inch.
    """
    x, y = np.asarray(x, dtype=float), rows["mean"].to_numpy(float)
    low, high = (rows[name].to_numpy(float).clip(shown.low, shown.high) for name in ("ci_low", "ci_high"))
    known = np.isfinite(low) & np.isfinite(high)
    joined = ordered and int(np.isfinite(y).sum()) >= CURVE
    options: dict[str, Any] = {"color": style.colour, "zorder": 3, "clip_on": False}
    options["transform"] = side.transform(axes, joined)
    if joined:
        axes.fill_between(x, low, high, color=style.colour, alpha=BAND, linewidth=0, transform=options["transform"])
        axes.plot(x, y, linestyle=style.line, **marked(style, size), **options)
    else:
        whiskers = np.where(known, [y - low, high - y], 0.0).clip(min=0.0)
        axes.errorbar(x, y, yerr=whiskers, linestyle="", elinewidth=0.9, **marked(style, size), **options)
    for ends in (np.where(known, low, y), np.where(known, high, y)):  # the axes do not see marks that were moved
        axes.update_datalim(np.column_stack([x, ends])[np.isfinite(ends)])
    axes.autoscale_view(scalex=axes.get_autoscalex_on())


def axis_break(axes: Axes, x: float) -> None:
    """Draw two strokes across the x axis, where it is not to scale."""
    figure = axes.get_figure()
    for side in (-1.0, 1.0):
        right = ScaledTranslation(side * 1.5 / 72, 0, figure.dpi_scale_trans)  # type: ignore[union-attr]
        axes.plot([x], [0], **STROKE, clip_on=False, zorder=5, transform=axes.get_xaxis_transform() + right)


def horizontal(axes: Axes, row: pd.Series, style: Look, shown: Quantity) -> None:
    """Draw a mean that does not depend on x, with its interval."""
    if not math.isnan(row["ci_low"]):
        low, high = max(row["ci_low"], shown.low), min(row["ci_high"], shown.high)
        axes.axhspan(low, high, color=style.colour, alpha=BAND, linewidth=0)
    axes.axhline(row["mean"], color=style.colour, linestyle=style.line, linewidth=1.2)


def reference_line(axes: Axes, rows: pd.DataFrame, shown: Quantity) -> None:
    """Draw the chance baseline (column reference) where there is one; values no better than it are shaded.

    A quantity that may be negative has a line at 0.
    """
    if shown.low < 0:
        axes.axhline(0.0, **REFERENCE, zorder=1)
    if not has_reference(rows):
        return
    level = float(rows["reference"].mean())
    low = level - FAR if shown.more_is_better else level
    # an artist and no patch of the axes: their limits stay those of the points and of the line
    shade = Rectangle((0, low), 1, FAR, transform=axes.get_yaxis_transform(), color=NO_BETTER, linewidth=0, zorder=0)
    axes.add_artist(shade)
    axes.axhline(level, **REFERENCE, zorder=1)


def reference_handle(points: pd.DataFrame, shown: Quantity) -> Mapping[str, Artist]:
    """Return the legend's sample of the shaded range; empty without a chance baseline."""
    if not has_reference(points):
        return {}
    edge = {"edgecolor": GREY, "linestyle": REFERENCE["linestyle"], "linewidth": 0.6}
    return {words.label(f"no better than {shown.reference_label}"): Patch(facecolor=NO_BETTER, **edge)}


def has_reference(points: pd.DataFrame) -> bool:
    """Return whether the points have a chance baseline."""
    return "reference" in points and bool(points["reference"].notna().any())


def hollow(axes: Axes, x: Any, y: Any, std: Any, style: Look, **options: Any) -> None:
    """Draw printed numbers as hollow marks, with their standard deviation where the paper prints one."""
    axes.errorbar(x, y, yerr=std, fmt=style.marker or "o", color=style.colour, **HOLLOW, **options)
