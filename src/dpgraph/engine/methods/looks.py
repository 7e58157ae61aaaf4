"""Colours, markers and dashes of methods in figures: Okabe & Ito's colours for colour-blind readers.

A method proposes a look; `allocate` of the reports' palette makes the looks of one figure distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILION, PURPLE, BLACK = "#D55E00", "#CC79A7", "#000000"
TEAL, OLIVE, WINE, BROWN, SLATE, GREY = "#117777", "#8F8F1F", "#882255", "#7A4B1E", "#5A6B7B", "#7F7F7F"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, TEAL, OLIVE, WINE, BROWN, SLATE, GREY)
CLASS_COLOURS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK)  # neighbours in this order are far apart
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "h", ">", "p", "d", "8", "H", "*")

Dashes = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of one method in a figure."""

    colour: str
    marker: str
    line: Dashes
    neutral: bool = False  # a control: the same grey at every epsilon


ANY = Look(BLACK, "d", "-")  # of a method that proposes none
DASHED, DASH_DOT, DOTTED = (0, (4, 2)), (0, (6, 1.5, 1, 1.5)), (0, (2, 1.5))
LONG_DASHES = (0, (14, 2))
MARKERS_PUBLISHED = {"o": "X", "s": "P", "^": "*"}
MARKERS_FIXED_SIZE = {"o": "8", "s": "H", "^": "d"}
MARKERS_SGD = {"o": "h", "s": "p", "X": "d", "P": "d", "8": "p"}


def any_look(cell: Any) -> Look:
    """Return the look of a method that proposes none."""
    return ANY


def by_architecture(looks: Mapping[tuple[str, int], Look]) -> Callable[[Any], Look]:
    """Return a function that finds the look by architecture and hops.

    A paper's own mechanism (variant published) is dashed with its own marker; SGD has its own marker, too.
    """

    def look(cell: Any) -> Look:
        own = adapted(looks.get((cell.model.architecture, cell.model.hops), ANY), cell)
        return own if cell.model.encoder_layers else replace(own, marker="D")  # softmax regression

    return look


def adapted(base: Look, cell: Any) -> Look:
    """Return a look with marker and line of the cell's variant and optimiser."""
    marker, line = base.marker, base.line
    variant = "none" if cell.privacy is None else cell.privacy.variant
    if variant.startswith("published"):
        marker, line = MARKERS_PUBLISHED.get(marker, marker), DOTTED if variant == "published-text" else DASHED
    if variant == "rigorous-fixed-size":
        marker, line = MARKERS_FIXED_SIZE.get(marker, marker), DASH_DOT
    if variant == "node-remove":
        line = LONG_DASHES
    if cell.training.optimizer == "sgd":
        marker = MARKERS_SGD.get(marker, marker)
    return replace(base, marker=marker, line=line)
