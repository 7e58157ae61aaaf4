"""Curves with intervals, horizontal lines and printed numbers.

Every measured point has its mark. Fewer than `CURVE` points are no curve: they are not joined. Marks of several series
at one place stand side by side (`Slot`), and no mark is cut off by an edge.
"""

from __future__ import annotations

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
LARGER = {
    "*": 1.7,
    "P": 1.3,
    "X": 1.3,
    "d": 1.25,
    "^": 1.1,
    "v": 1.1,
    "<": 1.1,
    ">": 1.1,
}  # of equal weight for the eye
UNFILLED = "x+|_1234"
REFERENCE: dict[str, Any] = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.0}
NO_BETTER = "#EDEDED"  # what is no better than the reference
FAR = 1e6  # beyond every axis


def marked(style: Look, size: float = SIZE) -> dict[str, Any]:
    """Options of a mark: with a white edge, so that marks that overlap stay apart."""
    edge = (
        {"markeredgewidth": 1.2} if style.marker in UNFILLED else {"markeredgecolor": "white", "markeredgewidth": 0.4}
    )
    return {"marker": style.marker, "markersize": size * LARGER.get(style.marker, 1.0), **edge}


def sample(style: Look, marks: bool = True, line: bool = True) -> Line2D:
    """A line of a legend, or its mark alone."""
    shape = {**(marked(style) if marks else {"marker": ""}), "linestyle": style.line if line else ""}
    return Line2D([], [], color=style.colour, **shape)


def method_handles(points: pd.DataFrame, looks: Mapping[str, Look], line: bool = True) -> dict[str, Artist]:
    """Return a line of the legend for each method of the points, or its mark alone."""
    return {
        words.label(str(rows["label"].iloc[0])): sample(looks[str(method)], line=line)
        for method, rows in points.groupby("method", sort=False)
    }


@dataclass(frozen=True)
class Slot:
    """Where a series stands among those that have marks at the same x: they do not hide each other."""

    place: int = 0
    count: int = 1
    gap: float = 1.0  # inches from one x to the next

    def transform(self, axes: Axes, joined: bool) -> Transform:
        """Of data to the screen; curves move less, because their lines are read between the marks as well."""
        step = min(STEP_OF_CURVES if joined else STEP, 72 * 0.7 * self.gap / max(self.count, 1))
        figure = axes.get_figure()
        right = (self.place - (self.count - 1) / 2) * step / 72
        return axes.transData + ScaledTranslation(right, 0, figure.dpi_scale_trans)  # type: ignore[union-attr]


ALONE = Slot()


def margin(series: int) -> float:
    """Inches that the marks of so many series take beside the first x and the last one."""
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
    """Means of ours with their interval (columns mean, ci_low, ci_high); not joined where x has no order.

    Student's interval of few seeds may leave the quantity's range (0 to 100 %), its drawing does not.
    """
    x, y = np.asarray(x, dtype=float), rows["mean"].to_numpy(float)
    low, high = (rows[name].to_numpy(float).clip(shown.low, shown.high) for name in ("ci_low", "ci_high"))
    known = np.isfinite(low) & np.isfinite(high)
    joined = ordered and int(np.isfinite(y).sum()) >= CURVE
    options: dict[str, Any] = {
        "color": style.colour,
        "zorder": 3,
        "clip_on": False,
        "transform": side.transform(axes, joined),
    }
    if joined:
        axes.fill_between(x, low, high, color=style.colour, alpha=BAND, linewidth=0, transform=options["transform"])
        axes.plot(x, y, linestyle=style.line, **marked(style, size), **options)
    else:
        whiskers = np.where(known, [y - low, high - y], 0.0).clip(min=0.0)
        axes.errorbar(x, y, yerr=whiskers, linestyle="", elinewidth=0.9, **marked(style, size), **options)
    for ends in (np.where(known, low, y), np.where(known, high, y)):  # which moved marks do not tell the axes
        axes.update_datalim(np.column_stack([x, ends])[np.isfinite(ends)])
    axes.autoscale_view(scalex=axes.get_autoscalex_on())


def axis_break(axes: Axes, x: float) -> None:
    """Two strokes across the x axis, where it is not to scale."""
    figure = axes.get_figure()
    for side in (-1.0, 1.0):
        right = ScaledTranslation(side * 1.5 / 72, 0, figure.dpi_scale_trans)  # type: ignore[union-attr]
        axes.plot(
            [x],
            [0],
            marker=[(-0.5, -1), (0.5, 1)],
            markersize=8,
            color="black",
            markeredgewidth=0.8,
            clip_on=False,
            zorder=5,
            transform=axes.get_xaxis_transform() + right,
            gid="break",
        )


def horizontal(axes: Axes, row: pd.Series, style: Look, shown: Quantity) -> None:
    """A mean of ours that does not depend on x, with its interval."""
    if not math.isnan(row["ci_low"]):
        low, high = max(row["ci_low"], shown.low), min(row["ci_high"], shown.high)
        axes.axhspan(low, high, color=style.colour, alpha=BAND, linewidth=0)
    axes.axhline(row["mean"], color=style.colour, linestyle=style.line, linewidth=1.2)


def reference_line(axes: Axes, rows: pd.DataFrame, shown: Quantity) -> None:
    """The chance baseline (column reference), where the quantity has one; what is no better than it is shaded."""
    if not has_reference(rows):
        return
    level = float(rows["reference"].mean())
    low = level - FAR if shown.more_is_better else level
    # an artist and no patch of the axes: their limits stay those of the points and of the line
    shade = Rectangle((0, low), 1, FAR, transform=axes.get_yaxis_transform(), color=NO_BETTER, linewidth=0, zorder=0)
    axes.add_artist(shade)
    axes.axhline(level, **REFERENCE, zorder=1)


def reference_handle(points: pd.DataFrame, shown: Quantity) -> Mapping[str, Artist]:
    if not has_reference(points):
        return {}
    edge = {"edgecolor": GREY, "linestyle": REFERENCE["linestyle"], "linewidth": 0.6}
    return {words.label(f"no better than {shown.reference_label}"): Patch(facecolor=NO_BETTER, **edge)}


def has_reference(points: pd.DataFrame) -> bool:
    return "reference" in points and bool(points["reference"].notna().any())


def hollow(axes: Axes, x: Any, y: Any, std: Any, style: Look, **options: Any) -> None:
    """Printed numbers, with their std where the paper prints one."""
    axes.errorbar(
        x,
        y,
        yerr=std,
        fmt=style.marker or "o",
        color=style.colour,
        markerfacecolor="white",
        markersize=6.0,
        capsize=2,
        linewidth=0.9,
        zorder=4,
        clip_on=False,
        **options,
    )
