"""What all figures share: style, sizes, curves with intervals, printed numbers, legends, and files without dates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, shorten, wrap
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import context

from dpgraph.files import atomic_path
from dpgraph.methods.looks import Look
from dpgraph.reporting import protection
from dpgraph.reporting.formats import Quantity, epsilon

STYLE = Path(__file__).with_name("style.mplstyle")
PANEL = (3.3, 2.5)  # inches: a column of a two-column page
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "ModDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
LEGEND_LINE = 0.145  # inches
NOTE_LINES = 3
NOTE_WIDTH = 52  # characters of a column
LABEL_WIDTH = 48
GREY = "#555555"
BAND = 0.13  # opacity of an interval
REFERENCE: dict[str, Any] = {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.0}


@contextmanager
def house_style(salt: str) -> Iterator[None]:
    """`salt` names the figure: ids inside an SVG are a function of it, so the same figure has the same bytes."""
    with context(STYLE, after_reset=True), matplotlib.rc_context({"svg.hashsalt": salt}):
        yield


def saved(figure: Figure, stem: Path, suffix: str) -> Path:
    path = stem.with_name(f"{stem.name}.{suffix}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, metadata=METADATA[suffix])
    return path


def save_all(figure: Figure, stem: Path) -> list[Path]:
    """stem.pdf, stem.svg and stem.png, from one layout: it takes most of the time."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return [saved(figure, stem, suffix) for suffix in METADATA]


@dataclass(frozen=True)
class Legend:
    """What stands below the panels: handles by label, and lines of text above them."""

    handles: Mapping[str, Line2D]
    lines: list[str]
    columns: int

    @property
    def height(self) -> float:
        """Lines of text that it takes: matplotlib fills column by column, the first ones with what is left over."""
        labels = list(self.handles)
        columns = max(min(self.columns, len(labels)), 1)
        sizes = [len(labels) // columns + (index < len(labels) % columns) for index in range(columns)]
        ends = np.cumsum(sizes)
        tall = [sum(text.count("\n") + 1 for text in labels[end - size : end]) for size, end in zip(sizes, ends)]
        return max(tall, default=0) + sum(line.count("\n") + 1 for line in self.lines) + 0.7


def across(count: int) -> int:
    return min(count, 2)


def panels(
    count: int, legend: Legend, per_panel: int = 1, height: float = PANEL[1]
) -> tuple[Figure, list[list[Axes]]]:  # fmt: skip
    """A figure of `count` column-wide places, two beside each other, with `per_panel` axes in each and a legend."""
    wide = across(count)
    down = math.ceil(count / wide)
    figure = Figure(figsize=(PANEL[0] * wide, height * down + LEGEND_LINE * legend.height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(down, wide * per_panel, squeeze=False).ravel()
    places = [list(grid[first : first + per_panel]) for first in range(0, len(grid), per_panel)]
    for axes in (axes for place in places[count:] for axes in place):
        axes.set_axis_off()
    if legend.handles:
        drawn = figure.legend(
            list(legend.handles.values()),
            list(legend.handles),
            loc="outside lower left",
            ncols=legend.columns,
            handlelength=2.6,
            title="\n".join(legend.lines),
            alignment="left",
        )
        drawn.get_title().set_color(GREY)
    return figure, places[:count]


def caption(points: pd.DataFrame, wide: int) -> list[str]:
    """Lines of a legend that say what the epsilons are about (`protection.caption`)."""
    return [line for text in protection.caption(points) for line in notes(text, wide)]


def label(text: str, width: int = LABEL_WIDTH) -> str:
    """As a legend prints it: in lines that fit a column; no-break spaces hold an epsilon and its value together.

    >>> label("short")
    'short'
    """
    return fill(text, width)


def panel_title(axes: Axes, text: str, demonstration: bool) -> None:
    """Left; a demonstration says so above it."""
    axes.set_title(fill(text, 38) + ("\n" if demonstration else ""), loc="left")
    if demonstration:
        axes.annotate(
            "demonstration",
            xy=(0, 1),
            xytext=(0, 5),
            xycoords="axes fraction",
            textcoords="offset points",
            color="#6B6B6B",
            fontsize=7,
        )


def sample(style: Look, marks: bool = True) -> Line2D:
    """A line of a legend."""
    shape: dict[str, Any] = {"linestyle": style.line, "markeredgecolor": "white", "markeredgewidth": 0.5}
    return Line2D([], [], color=style.colour, marker=style.marker if marks else "", **shape)


def curve(axes: Axes, x: Any, rows: pd.DataFrame, style: Look, shown: Quantity, marks: int = 100) -> None:
    """Means of ours with their interval (columns mean, ci_low, ci_high); about `marks` points are marked, or none.

    Student's interval of few seeds may leave the quantity's range (0 to 100 %), its drawing does not.
    """
    low, high = (rows[name].to_numpy(float).clip(shown.low, shown.high) for name in ("ci_low", "ci_high"))
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
    """What knows nothing (column reference), where the quantity has such a thing."""
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


def no_results(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no results", transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set_xticks([], [])
    axes.set_yticks([])


def notes(text: str, wide: int) -> list[str]:
    """Lines of a legend that is `wide` columns wide; none of an empty text."""
    return wrap(text, NOTE_WIDTH * wide, break_on_hyphens=False)


def missing_lines(points: pd.DataFrame, wide: int) -> list[str]:
    """Why points of ours are missing, a line for each reason (columns source, status, reason, task_label)."""
    missing = points[(points["source"] == "ours") & (points["status"] != "ok")]
    lines = []
    for (status, reason), rows in missing.groupby(["status", "reason"], sort=False):
        where = ", ".join(dict.fromkeys(rows["task_label"]))
        text = f"Missing: {len(rows)} of ours on {where} ({status}{': ' if reason else ''}{reason})"
        width = NOTE_WIDTH * wide
        lines += wrap(shorten(text, width * NOTE_LINES - 4, placeholder=" …)"), width)
    return lines


def uncertainty(points: pd.DataFrame) -> list[str]:
    """First lines of a legend: what is shaded, and what is hollow (columns source, n, variant)."""
    ours = points[points["source"] == "ours"]
    seeds = sorted(ours.loc[ours["n"] > 0, "n"].astype(int).unique())
    over = "" if not seeds else f" over {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "") + " seeds"
    lines = [f"Shaded: 95 % confidence interval of the mean{over}."]
    if seeds == [1]:
        lines = ["One seed each, so no interval."]
    printed = points[points["source"] != "ours"]
    if not printed.empty:
        places = ", ".join(sorted({source.removeprefix("paper's ") for source in printed["source"]}))
        std = ", ± its std" if printed["std"].notna().any() else ""
        proved = "; proved ε: none." if (printed["variant"] != "none").any() else "."
        lines.append(f"Hollow: printed in the paper, {places}{std}{proved}")
    return lines


def budget(rows: pd.DataFrame) -> str:
    """Both epsilons of some runs, as a legend says them: never the published one without what is proved.

    Their relation and scope are said by `caption`, as is what the mark means.

    >>> budget(pd.DataFrame({"eps_published": [37.2, 30.0], "eps_rigorous": [float("nan")] * 2, "uncovered": ""}))
    'published ε\\xa030.0\\xa0to\\xa037.2, rigorous ε\\xa0none'
    """
    spans = {mode: _span(rows[f"eps_{mode}"]) for mode in protection.MODES}
    spans["rigorous"] += max(map(protection.mark, rows.to_dict("records")), default="")
    return ", ".join(f"{mode} ε {span}".replace(" ", "\xa0").replace("\xa0", " ", 1) for mode, span in spans.items())


def _span(values: Iterable[float]) -> str:
    found = sorted(value for value in values if not math.isnan(value))
    if not found:
        return "none"
    low, high = epsilon(found[0]), epsilon(found[-1])
    return low if low == high else f"{low} to {high}"
