"""How a method looks in every figure: Okabe & Ito's colours for colour-blind readers, markers and dashes for grey."""

from __future__ import annotations

from dataclasses import dataclass

from dpgraph.experiments.cell import Cell

BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE, BLACK = (
    "#0072B2",
    "#56B4E9",
    "#009E73",
    "#E69F00",
    "#D55E00",
    "#CC79A7",
    "#000000",
)

Dashes = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str
    line: Dashes


LOOKS = {
    ("gnn", 1): Look(GREEN, "v", (0, (5, 1.5))),
    ("gnn", 2): Look(SKY, "<", (0, (8, 2))),
    ("mlp", 0): Look(ORANGE, ">", (0, (1, 1.5))),
    ("dp-gnn", 1): Look(BLUE, "o", "-"),
    ("dp-gnn", 2): Look(PURPLE, "s", "-"),
    ("dp-mlp", 0): Look(VERMILION, "^", "-"),
}
OTHERS = Look(BLACK, "D", "-")
MARKERS_PUBLISHED = {"o": "X", "s": "P", "^": "*"}
MARKERS_SGD = {"o": "h", "s": "p", "X": "d"}


def look(cell: Cell) -> Look:
    """The paper's own mechanism (variant published) is dashed and has its own marker; SGD has its own marker, too."""
    base = LOOKS.get((cell.method, cell.model.hops), OTHERS)
    marker, line = base.marker, base.line
    if cell.privacy is not None and cell.privacy.variant == "published":
        marker, line = MARKERS_PUBLISHED.get(marker, marker), (0, (4, 2))
    if cell.training.optimizer == "sgd":
        marker = MARKERS_SGD.get(marker, marker)
    return Look(base.colour, marker, line)
