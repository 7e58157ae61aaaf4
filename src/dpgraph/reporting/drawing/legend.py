"""Legends: at most a fixed share of a figure's height, to the right, in a free place or below the panels.

A single handle is always below: to the right it would cost a fifth of the width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

SHARE = 0.28  # of a figure's height, at most
RIGHT_SHARE = 0.43  # of a figure's width, at most, of a legend to the right
EDGE = 0.08  # inches around it
INSET = 0.5  # inches of a place left of its axes, from which a legend in it starts
HANDLE = 2.6  # length of a line's sample, in letters


class Place(StrEnum):
    """Positions of a legend."""

    NONE = "none"
    RIGHT = "right"
    FREE = "free"  # the place that an incomplete row leaves
    BELOW = "below"


@dataclass(frozen=True)
class Legend:
    """A legend: its samples, position, columns and size."""

    handles: Mapping[str, Artist]
    place: Place
    columns: int
    height: float  # inches that it adds to the figure
    width: float = 0.0

    @classmethod
    def placed(
        cls,
        handles: Mapping[str, Artist],
        width: float,
        across: int,
        places: int,
        tall: Sequence[float],
        below: bool = False,
    ) -> Legend:
        """Choose position and columns.

        Args:
            handles: Samples by label.
            width: Width of the figure in inches.
            across: Places next to each other.
            places: Places in all.
            tall: Heights of the rows in inches.
            below: Whether the legend is below the panels even where it fits elsewhere.
        """
        if not handles:
            return cls(handles, Place.NONE, 1, 0.0)
        wide, high = size(handles, 1)
        if not below and len(handles) > 1 and places == 1 and wide <= RIGHT_SHARE * width and high <= tall[0]:
            return cls(handles, Place.RIGHT, 1, 0.0, wide)
        free = -places % across
        if not below and free and wide <= width * free / across - INSET and high <= tall[-1]:
            return cls(handles, Place.FREE, 1, 0.0)
        columns, high = 1, high
        for more in range(2, len(handles) + 1):
            wide, less = size(handles, more)
            if wide > width:
                break
            if less < high:  # a column more that saves no row only spreads the handles
                columns, high = more, less
        return cls(handles, Place.BELOW, columns, high + EDGE)

    def stretch(self, above: float) -> float:
        """Return the factor by which panels of `above` inches grow, so that the legend keeps to its share."""
        return max(1.0, self.height * (1 / SHARE - 1) / above)

    def draw(self, figure: Figure, free: Axes | None = None) -> None:
        """Draw the legend into the figure, or into `free`, the axes of the free place."""
        if self.place is Place.NONE:
            return
        texts, samples = list(self.handles), list(self.handles.values())
        if free is not None:
            inside = free.legend(
                samples, texts, loc="upper left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0, handlelength=HANDLE
            )
            inside.set_in_layout(False)
            return
        where: Any = "outside right upper" if self.place is Place.RIGHT else "outside lower left"
        figure.legend(samples, texts, loc=where, ncols=self.columns, handlelength=HANDLE)


def size(handles: Mapping[str, Artist], columns: int) -> tuple[float, float]:
    """Return width and height of a legend in inches."""
    figure = Figure(figsize=(20, 20), dpi=100)
    canvas = FigureCanvasAgg(figure)
    drawn = figure.legend(list(handles.values()), list(handles), ncols=columns, handlelength=HANDLE)
    box = drawn.get_window_extent(canvas.get_renderer())
    return box.width / figure.dpi, box.height / figure.dpi
