"""Style, sizes, panels and legends of all figures, and files without dates."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
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

STYLE = Path(__file__).with_name("style.mplstyle")
PANEL = (3.3, 2.5)  # inches: a column of a two-column page
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "ModDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
ACROSS = 2  # places next to each other
LEGEND_LINE = 0.145  # inches
GREY = "#555555"

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports every table of every font that a PDF embeds

Drawn = tuple[list[Path], pd.DataFrame]  # files of a figure, and its points


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
    """Handles by label, in the place that an odd number of panels leaves free, else below; and lines of text below."""

    handles: Mapping[str, Line2D]
    lines: list[str]
    columns: int

    def height(self, with_handles: bool = True) -> float:
        """Lines of text that it takes: matplotlib fills column by column, the first ones with what is left over."""
        labels = list(self.handles) if with_handles else []
        columns = max(min(self.columns, len(labels)), 1)
        sizes = [len(labels) // columns + (index < len(labels) % columns) for index in range(columns)]
        ends = np.cumsum(sizes)
        tall = [sum(text.count("\n") + 1 for text in labels[end - size : end]) for size, end in zip(sizes, ends)]
        return max(tall, default=0) + sum(line.count("\n") + 1 for line in self.lines) + 0.7

    def fits(self, height: float) -> bool:
        """Whether the handles, one below the other, fit into a place of so many inches."""
        return sum(text.count("\n") + 1.4 for text in self.handles) * LEGEND_LINE < height

    def draw(self, figure: Figure, inside: Axes | None = None, **options: Any) -> None:
        """`inside` a free place if one is given."""
        if inside is not None:
            inside.legend(
                list(self.handles.values()),
                list(self.handles),
                loc="upper left",
                bbox_to_anchor=(0.0, 1.0),
                borderaxespad=0.0,
                **options,
            ).set_in_layout(False)
        drawn = figure.legend(
            [] if inside is not None else list(self.handles.values()),
            [] if inside is not None else list(self.handles),
            loc="outside lower left",
            ncols=self.columns,
            title="\n".join(self.lines),
            alignment="left",
            **options,
        )
        drawn.get_title().set_color(GREY)


def panels(
    count: int, legend: Legend, per_panel: int = 1, height: float = PANEL[1]
) -> tuple[Figure, list[list[Axes]]]:  # fmt: skip
    """A figure of `count` column-wide places, two next to each other, with `per_panel` axes in each and a legend.

    One with a legend is two columns wide: a single panel has the legend next to it, or the whole width.
    """
    free = bool(legend.handles) and count % ACROSS == 1 and legend.fits(height)
    wide = ACROSS if count > 1 or free else 1
    columns = ACROSS if legend.handles else wide
    down = math.ceil(count / wide)
    tall = height * down + LEGEND_LINE * legend.height(with_handles=not free)
    figure = Figure(figsize=(PANEL[0] * columns, tall), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(down, wide * per_panel, squeeze=False).ravel()
    places = [list(grid[first : first + per_panel]) for first in range(0, len(grid), per_panel)]
    for axes in (axes for place in places[count:] for axes in place):
        axes.set_axis_off()
    if legend.handles:
        legend.draw(figure, places[count][0] if free else None, handlelength=2.6)
    return figure, places[:count]


def panel_title(axes: Axes, text: str, demonstration: bool) -> None:
    """At the left; a demonstration is marked as such above it."""
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


def no_results(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no results", transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set_xticks([], [])
    axes.set_yticks([])
