"""How a method looks in every figure: Okabe & Ito's colours for colour-blind readers, markers and dashes for grey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

from dpgraph.experiments.cell import Cell, Pagerank

BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE, BLACK = (
    "#0072B2",
    "#56B4E9",
    "#009E73",
    "#E69F00",
    "#D55E00",
    "#CC79A7",
    "#000000",
)
TEAL, OLIVE, WINE, BROWN, SLATE, GREY = "#117777", "#8F8F1F", "#882255", "#7A4B1E", "#5A6B7B", "#7F7F7F"

Dashes = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str
    line: Dashes
    neutral: bool = False  # a control: the same grey at every epsilon


# by method, architecture and hops; without privacy dashed or dotted, private solid
LOOKS = {
    ("gnn", "gcn", 1): Look(GREEN, "v", (0, (5, 1.5))),
    ("gnn", "gcn", 2): Look(SKY, "<", (0, (8, 2))),
    ("gnn", "gin", 1): Look(OLIVE, "v", (0, (5, 1, 1, 1))),
    ("gnn", "gin", 2): Look(OLIVE, "<", (0, (8, 1, 1, 1))),
    ("gnn", "gat", 1): Look(BROWN, "v", (0, (5, 1, 1, 1, 1, 1))),
    ("gnn", "gat", 2): Look(BROWN, "<", (0, (8, 1, 1, 1, 1, 1))),
    ("mlp", "mlp", 0): Look(ORANGE, ">", (0, (1, 1.5))),
    ("dp-gnn", "gcn", 1): Look(BLUE, "o", "-"),
    ("dp-gnn", "gcn", 2): Look(PURPLE, "s", "-"),
    ("dp-gnn", "gin", 1): Look(TEAL, "o", (0, (12, 1))),
    ("dp-gnn", "gin", 2): Look(TEAL, "s", (0, (12, 1))),
    ("dp-gnn", "gat", 1): Look(WINE, "o", (0, (9, 1, 3, 1))),
    ("dp-gnn", "gat", 2): Look(WINE, "s", (0, (9, 1, 3, 1))),
    ("dp-residual", "gcn", 1): Look(BLACK, "D", "-"),
    ("dp-residual", "gcn", 2): Look(SLATE, "P", "-"),
    ("dp-residual", "gin", 1): Look(TEAL, "D", (0, (7, 1))),
    ("dp-residual", "gin", 2): Look(TEAL, "P", (0, (7, 1))),
    ("dp-residual", "gat", 1): Look(WINE, "D", (0, (7, 1, 2, 1))),
    ("dp-residual", "gat", 2): Look(WINE, "P", (0, (7, 1, 2, 1))),
    ("dp-mlp", "mlp", 0): Look(VERMILION, "^", "-"),
}
# graph splits and lots: by method, variant and optimiser, which the papers compare
KIPF = {
    ("kipf-gcn", "none", "adam"): Look(GREEN, "v", (0, (5, 1.5))),
    ("kipf-gcn", "none", "sgd"): Look(OLIVE, "^", (0, (5, 1, 1, 1))),
    ("dp-subgraph", "published", "adam"): Look(BLUE, "o", (0, (7, 2))),
    ("dp-subgraph", "published", "sgd"): Look(VERMILION, "s", (0, (2.5, 1.2))),
    ("dp-subgraph", "released", "adam"): Look(BROWN, "X", (0, (7, 2, 1, 2))),
    ("dp-subgraph", "released", "sgd"): Look(ORANGE, "P", (0, (2.5, 1.2, 1, 1.2))),
    ("dp-subgraph", "cut", "adam"): Look(SLATE, "v", (0, (7, 1.5, 1, 1.5))),
    ("dp-subgraph", "cut", "sgd"): Look(PURPLE, "^", (0, (3, 1, 1, 1, 1, 1))),
    ("dp-subgraph", "rigorous", "adam"): Look(TEAL, "D", "-"),
    ("dp-subgraph", "rigorous", "sgd"): Look(WINE, "h", "-"),
    ("dp-lots", "published", "sgd"): Look(VERMILION, "s", (0, (2.5, 1.2))),
    ("dp-lots", "rigorous", "sgd"): Look(WINE, "h", "-"),
}
# rows of PageRank: by release; without privacy dotted, private solid, the thesis' mechanism dashed with its own marker
PAGERANK = {
    "exact": Look(VERMILION, "v", "-"),
    "gaussian": Look(BLUE, "o", "-"),
    "exponential": Look(GREEN, "s", "-"),
    "exponential-values": Look(PURPLE, "^", "-"),
    "identity": Look(ORANGE, "D", "-"),
    "random": Look(GREY, "X", "-"),
}
PAGERANK_PUBLISHED = {"v": "<", "o": "8", "s": "H", "^": "*", "D": "d", "X": "P"}
OWN_RECORDS = Look(TEAL, "h", (0, (12, 1)))  # rows with a share of the root's own record
ALL_ROOTS = {"identity": Look(BROWN, "p", (0, (9, 1, 3, 1)))}  # all training nodes are roots
# what reads no record, or nothing but labels: in grey, behind all others
NEUTRAL = {
    "dp-pure-noise": Look("#8A8A8A", "d", (0, (3, 2)), neutral=True),
    "random": Look("#A0A0A0", "", (0, (1, 2)), neutral=True),
    "majority": Look("#606060", "", (0, (1, 1)), neutral=True),
}
# residual clipping that adds nothing of neighbours
OWN_ONLY = {1: Look(GREY, "d", (0, (2, 0.8))), 2: Look(GREY, "p", (0, (3, 0.8)))}
OTHERS = Look(BLACK, "d", "-")
MARKERS_PUBLISHED = {"o": "X", "s": "P", "^": "*"}
MARKERS_FIXED_SIZE = {"o": "8", "s": "H", "^": "d"}
MARKERS_SGD = {"o": "h", "s": "p", "X": "d", "P": "d", "8": "p"}
MARKERS_OF_VALUES = ("o", "s", "^", "D", "v", "P", "X", "<", "h", ">")


def look(cell: Cell) -> Look:
    """The paper's own mechanism (variant published) is dashed and has its own marker; SGD has its own marker, too."""
    if cell.method in NEUTRAL:
        style = NEUTRAL[cell.method]
        return replace(style, marker="p") if style.marker and cell.training.optimizer == "sgd" else style
    if cell.pagerank is not None:
        return _look_of_rows(cell, cell.pagerank)
    of_variant = KIPF.get((cell.method, cell.privacy.variant if cell.privacy else "none", cell.training.optimizer))
    if of_variant is not None:
        return of_variant
    base = LOOKS.get((cell.method, cell.model.architecture, cell.model.hops), OTHERS)
    if cell.method == "dp-residual" and cell.privacy is not None and cell.privacy.neighbour_clip_ratio == 0:
        base = OWN_ONLY.get(cell.model.hops, OTHERS)
    marker, line = base.marker, base.line
    if cell.privacy is not None and cell.privacy.variant == "published":
        marker, line = MARKERS_PUBLISHED.get(marker, marker), (0, (4, 2))
    if cell.privacy is not None and cell.privacy.variant == "rigorous-fixed-size":
        marker, line = MARKERS_FIXED_SIZE.get(marker, marker), (0, (6, 1.5, 1, 1.5))
    if cell.training.optimizer == "sgd":
        marker = MARKERS_SGD.get(marker, marker)
    return Look(base.colour, marker, line)


def _look_of_rows(cell: Cell, pagerank: Pagerank) -> Look:
    style = PAGERANK[pagerank.release]
    if cell.privacy is None:
        return replace(style, line=(0, (1, 1.5)))
    if cell.privacy.variant == "published":
        return replace(style, marker=PAGERANK_PUBLISHED[style.marker], line=(0, (4, 2)))
    if pagerank.own_weight:
        return OWN_RECORDS
    return ALL_ROOTS.get(pagerank.release, style) if pagerank.num_rows is None else style


def looks_of_values(values: Sequence[str]) -> dict[str, Look]:
    """Of a sweep: colours in the order of the values (dark to light, of equal steps for colour-blind readers, too)."""
    scale = colormaps["viridis"]
    last = max(len(values) - 1, 1)
    return {
        value: Look(to_hex(scale(0.88 * index / last)), MARKERS_OF_VALUES[index % len(MARKERS_OF_VALUES)], "-")
        for index, value in enumerate(values)
    }


def shades(style: Look, count: int) -> list[Look]:
    """One method at `count` target epsilons, ascending: the lighter, the more private; marks tell them apart, too.

    >>> [shade.colour for shade in shades(Look("#000000", "o", "-"), 2)]
    ['#8c8c8c', '#000000']
    """
    if count == 1 or style.neutral:
        return [style] * count
    own = np.array(to_rgb(style.colour))
    white = (LIGHTEST * (count - 1 - np.arange(count)) / (count - 1))[:, None]
    return [
        replace(style, colour=to_hex(colour), marker=MARKERS_OF_VALUES[index % len(MARKERS_OF_VALUES)])
        for index, colour in enumerate(own + white * (1 - own))
    ]


LIGHTEST = 0.55  # share of white at the smallest epsilon


def with_line_of(of_value: Look, of_method: Look) -> Look:
    """A curve of a sweep: colour and marker say the value, the line says the method."""
    return replace(of_value, line=of_method.line)
