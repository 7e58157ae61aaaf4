"""Style and sizes of all figures, their panels, and files without dates. Prose stands beside a figure, never in it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.style import context

from dpgraph.core.files import atomic_path
from dpgraph.reporting.drawing.legend import Legend, Place

STYLE = Path(__file__).with_name("style.mplstyle")
WIDTH = 6.6  # inches: a page of text
PANEL = (WIDTH / 2, 2.4)  # inches: a column of a two-column page
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "ModDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
_suffixes: ContextVar[tuple[str, ...]] = ContextVar("suffixes", default=tuple(METADATA))
ACROSS = 2  # places next to each other
TITLES = ((2.5, 8.5, 12.5), (0.0, 7.5, 14.2))  # least inches of a place, size of its title, letters that an inch holds
INSET = 0.45  # inches of a place beside its axes, above which the title starts
UNDER = 0.75  # inches of a place above and under its y axis: title, tick labels, x label
LETTERS = 15.5  # letters of a label that an inch holds
GREY = "#555555"

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports every table of every font that a PDF embeds


class Drawn(NamedTuple):
    """A figure, its points, and what is said beside it, a sentence or two each."""

    figure: Figure
    points: pd.DataFrame
    caption: list[str]


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
    """stem.pdf, stem.svg and stem.png, or those of `only`, from one layout: it takes most of the time."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return [saved(figure, stem, suffix) for suffix in _suffixes.get()]


@contextmanager
def only(*suffixes: str) -> Iterator[None]:
    """Figures that are drawn inside are saved as these files alone."""
    token = _suffixes.set(suffixes)
    try:
        yield
    finally:
        _suffixes.reset(token)


def panels(
    places: Sequence[int],
    handles: Mapping[str, Artist],
    across: int = ACROSS,
    height: float = PANEL[1],
    heights: Sequence[float] | None = None,
    below: bool = False,
) -> tuple[Figure, list[list[Axes]], float]:
    """A figure as wide as a page, or as its panels where they are few and there is no legend; the width of a place.

    places: how many axes share each place. across: places next to each other. heights: of the rows in inches, where
    they differ. The legend is to the right of a single place, in the place that an incomplete row leaves free, or
    below (`legend.Legend`; `below`: always); the panels grow until it takes no more than `legend.SHARE` of the height.
    """
    across = min(across, len(places))
    width = WIDTH if handles or across > 1 else PANEL[0]
    down = math.ceil(len(places) / across)
    tall = list(heights or [height] * down)
    legend = Legend.of(handles, width, across, len(places), tall, below)
    above = sum(tall) * legend.stretch(sum(tall))
    figure = Figure(figsize=(width, above + legend.height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(down, across, height_ratios=tall)
    axes = []
    for place, count in enumerate(places):
        spot = grid[place // across, place % across]
        shared = spot.subgridspec(1, count)
        parts = [spot] if count == 1 else [shared[0, part] for part in range(count)]
        axes.append([figure.add_subplot(part) for part in parts])
    free = None
    if legend.place is Place.FREE:
        free = figure.add_subplot(grid[down - 1, len(places) % across :])
        free.set_axis_off()
    legend.draw(figure, free)
    return figure, axes, (width - (legend.width if legend.place is Place.RIGHT else 0.0)) / across


def panelled(
    titles: Sequence[str],
    handles: Mapping[str, Artist],
    demonstration: bool,
    x: str = "",
    y: str = "",
    across: int = ACROSS,
    height: float = PANEL[1],
    below: bool = False,
) -> tuple[Figure, list[Axes], float]:
    """Return a figure with a panel for each title, labelled; without any it says that there are no results.

    The last value is the width of a place, as `panels` returns it.
    """
    figure, places, width = panels([1] * max(len(titles), 1), handles, across, height, below=below)
    grid = [axes for (axes,) in places]
    for axes, title in zip(grid, titles):
        panel_title(axes, title, demonstration, width)
        axes.set_xlabel(x)
        y_label(axes, y)
    if not titles:
        no_results(grid[0])
    return figure, grid, width


def share_y(places: Sequence[Axes]) -> None:
    """One y axis for axes next to each other; the first one has its labels."""
    for axes in places[1:]:
        low = min(axes.get_ylim()[0], places[0].get_ylim()[0])
        high = max(axes.get_ylim()[1], places[0].get_ylim()[1])
        axes.sharey(places[0])
        places[0].set_ylim(low, high)
        axes.tick_params(labelleft=False)
        axes.set_ylabel("")


def panel_title(axes: Axes, text: str, demonstration: bool, width: float = PANEL[0]) -> None:
    """At the left, in lines that a panel of `width` inches holds; a demonstration is marked as such."""
    marked = f"{text} (demonstration)" if demonstration else text
    size, letters = next((size, letters) for least, size, letters in TITLES if width >= least)
    axes.set_title(fill(marked, max(int((width - INSET) * letters), 12)), loc="left", fontsize=size)


def y_label(axes: Axes, text: str) -> None:
    """In lines that are no longer than the axis, of axes whose layout is still to come."""
    figure, spec = axes.figure, axes.get_subplotspec()
    rows = spec.get_gridspec().nrows if spec is not None else 1
    letters = (figure.get_figheight() / rows - UNDER) * LETTERS  # type: ignore[union-attr]
    axes.set_ylabel(fill(text, max(int(letters), 12)))


def no_results(axes: Axes) -> None:
    """The one panel of a figure of which there is nothing to show."""
    axes.text(0.5, 0.5, "no results", transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set_xticks([], [])
    axes.set_yticks([])
