"""By release; without privacy dotted, private solid, the thesis' mechanism dashed with its own marker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgraph.engine.methods.looks import BLUE, BROWN, DASHED, GREEN, GREY, ORANGE, PURPLE, TEAL, VERMILION, Look

LOOKS = {
    "exact": Look(VERMILION, "v", "-"),
    "gaussian": Look(BLUE, "o", "-"),
    "exponential": Look(GREEN, "s", "-"),
    "exponential-values": Look(PURPLE, "^", "-"),
    "identity": Look(ORANGE, "D", "-"),
    "random": Look(GREY, "X", "-"),
}
PUBLISHED = {"v": "<", "o": "8", "s": "H", "^": "*", "D": "d", "X": "P"}
OWN_RECORDS = Look(TEAL, "h", (0, (12, 1)))  # rows with a share of the root's own record
ALL_ROOTS = {"identity": Look(BROWN, "p", (0, (9, 1, 3, 1)))}  # all training nodes are roots


def look(cell: Any) -> Look:
    rows = cell.pagerank
    style = LOOKS[rows.release]
    if cell.privacy is None:
        return replace(style, line=(0, (1, 1.5)))
    if cell.privacy.variant == "published":
        return replace(style, marker=PUBLISHED[style.marker], line=DASHED)
    if rows.own_weight:
        return OWN_RECORDS
    return ALL_ROOTS.get(rows.release, style) if rows.num_rows is None else style
