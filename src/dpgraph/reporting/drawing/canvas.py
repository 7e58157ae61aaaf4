"""Style, sizes, panels and files of all figures. Prose belongs to the caption, never to the picture."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill, shorten
from typing import Any, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.style import context
from matplotlib.transforms import BboxBase
from PIL import Image

from dpgraph.core.files import atomic_path
from dpgraph.reporting.drawing.legend import Legend, Place

STYLE = Path(__file__).with_name("style.mplstyle")
WIDTH = 6.6  # inches: a page of text
PANEL = (WIDTH / 2, 2.4)  # inches: a column of a two-column page
METADATA: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None, "ModDate": None}, "svg": {"Date": None}, "png": {}}
ACROSS = 2  # places next to each other
TITLES = ((2.5, 8.5, 12.5), (0.0, 7.5, 14.2))  # least inches of a place, size of its title, letters that an inch holds
INSET = 0.45  # inches of a place left of its axes, above which the title starts
UNDER = 0.75  # inches of a place above and under its y axis: title, tick labels, x label
LETTERS = 15.5  # letters of a label that an inch holds
GREY = "#555555"

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports every table of every font that a PDF embeds


class Drawn(NamedTuple):
    """A figure, its points, its caption (one or two sentences a line), and the methods that it draws (None: all)."""

    figure: Figure
    points: pd.DataFrame
    caption: list[str]
    methods: Sequence[str] | None = None


@contextmanager
def house_style(salt: str) -> Iterator[None]:
    """Apply the style of the project; ids inside an SVG depend on `salt` alone, so equal figures have equal bytes."""
    with context(STYLE, after_reset=True), matplotlib.rc_context({"svg.hashsalt": salt}):
        yield


def saved(figure: Figure, stem: Path, suffix: str) -> Path:
    """Write the figure as one file and return its path."""
    path = stem.with_name(f"{stem.name}.{suffix}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, metadata=METADATA[suffix])
        if suffix == "png":  # 256 colours show the same, in a third of the bytes
            Image.open(temporary).convert("RGB").quantize().save(temporary, "PNG", optimize=True)
    return path


def save_all(figure: Figure, stem: Path, *suffixes: str) -> list[Path]:
    """Write stem.pdf, stem.svg and stem.png, or those of `suffixes`, from one layout, which takes most time."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return [saved(figure, stem, suffix) for suffix in suffixes or METADATA]


def panels(
    places: Sequence[int],
    handles: Mapping[str, Artist],
    across: int = ACROSS,
    height: float = PANEL[1],
    heights: Sequence[float] | None = None,
    below: bool = False,
) -> tuple[Figure, list[list[Axes]], float]:
    """Make a figure with empty panels and its legend.

    The figure is as wide as a page, or as one panel where there is one and no legend. Its panels grow until the legend
    takes no more than `legend.SHARE` of the height.

    Args:
        places: How many axes share each place.
        handles: Samples of the legend by label.
        across: Places next to each other.
        height: Height of a row in inches.
        heights: Heights of the rows in inches, where they differ.
        below: Whether the legend is below the panels even where it fits elsewhere.

    Returns:
        The figure, the axes of each place, and the width of a place in inches.
    """
    across = min(across, len(places))
    width = WIDTH if handles or across > 1 else PANEL[0]
    down = math.ceil(len(places) / across)
    tall = list(heights or [height] * down)
    legend = Legend.placed(handles, width, across, len(places), tall, below)
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
    """Return a figure with a labelled panel for each title, and the width of a place in inches.

    Without titles there is one empty panel. The other arguments are those of `panels`.
    """
    figure, places, width = panels([1] * max(len(titles), 1), handles, across, height, below=below)
    grid = [axes for (axes,) in places]
    for axes, title in zip(grid, titles):
        panel_title(axes, title, demonstration, width)
        axes.set_xlabel(x)
        y_label(axes, y)
    return figure, grid, width


def share_y(places: Sequence[Axes]) -> None:
    """Give axes next to each other one y axis; the first one has its labels."""
    for axes in places[1:]:
        low = min(axes.get_ylim()[0], places[0].get_ylim()[0])
        high = max(axes.get_ylim()[1], places[0].get_ylim()[1])
        axes.sharey(places[0])
        places[0].set_ylim(low, high)
        axes.tick_params(labelleft=False)
        axes.set_ylabel("")


def drop_overlapping(axes: Axes) -> None:
    """Remove labels of points that would lie on one that was placed before; call it after the limits are set."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    kept: list[BboxBase] = []
    for text in [*axes.texts]:
        box = text.get_window_extent()
        if any(box.overlaps(one) for one in kept):
            text.remove()
        else:
            kept.append(box)


def panel_title(axes: Axes, text: str, demonstration: bool, width: float = PANEL[0]) -> None:
    """Write a title in lines that fit a panel of `width` inches; a demonstration is marked as such."""
    marked = f"{text} (demonstration)" if demonstration else text
    size, letters = next((size, letters) for least, size, letters in TITLES if width >= least)
    axes.set_title(fill(marked, max(int((width - INSET) * letters), 12)), loc="left", fontsize=size)


def y_label(axes: Axes, text: str) -> None:
    """Write a label of the y axis in lines that are no longer than the axis; call it before the layout."""
    figure, spec = axes.figure, axes.get_subplotspec()
    rows = spec.get_gridspec().nrows if spec is not None else 1
    letters = (figure.get_figheight() / rows - UNDER) * LETTERS  # type: ignore[union-attr]
    axes.set_ylabel(fill(text, max(int(letters), 12)))


def name_empty(figure: Figure, names: str) -> None:
    """Write in place of each panel without data what has no results: its title, or `names` where it has none."""
    for axes in figure.axes:
        if axes.axison and not axes.has_data() and not axes.texts:
            text = shorten(f"no results: {axes.get_title(loc='left') or names}", 44, placeholder=" …")
            axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY)
            axes.set_axis_off()
