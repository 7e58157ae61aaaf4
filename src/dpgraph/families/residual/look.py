"""Black and diamonds; grey where neighbours add nothing."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.looks import ANY, BLACK, GREY, SLATE, TEAL, WINE, Look, adapted

LOOKS = {
    ("gcn", 1): Look(BLACK, "D", "-"),
    ("gcn", 2): Look(SLATE, "P", "-"),
    ("gin", 1): Look(TEAL, "D", (0, (7, 1))),
    ("gin", 2): Look(TEAL, "P", (0, (7, 1))),
    ("gat", 1): Look(WINE, "D", (0, (7, 1, 2, 1))),
    ("gat", 2): Look(WINE, "P", (0, (7, 1, 2, 1))),
}
OWN_ONLY = {1: Look(GREY, "d", (0, (2, 0.8))), 2: Look(GREY, "p", (0, (3, 0.8)))}


def look(cell: Any) -> Look:
    base = LOOKS.get((cell.model.architecture, cell.model.hops), ANY)
    if cell.privacy.neighbour_clip_ratio == 0:
        base = OWN_ONLY.get(cell.model.hops, ANY)
    return adapted(base, cell)
