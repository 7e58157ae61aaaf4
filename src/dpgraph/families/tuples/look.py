"""By what is trained and by the variant."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.looks import BLUE, BROWN, DASH_DOT, DASHED, GREEN, GREY, ORANGE, PURPLE, VERMILION, Look

HEADS = {None: Look(BLUE, "d", DASH_DOT), "rigorous": Look(GREEN, "^", "-"), "standard": Look(ORANGE, "v", DASHED),
         "published": Look(VERMILION, "*", DASHED), "released": Look(PURPLE, "X", DASHED)}  # fmt: skip
MARKERS = {None: "p", "rigorous": "D", "standard": "<", "published": "P", "released": "8"}


def head_look(cell: Any) -> Look:
    return HEADS[None if cell.privacy is None else cell.privacy.variant]


def encoder_look(cell: Any) -> Look:
    variant = None if cell.privacy is None else cell.privacy.variant
    return Look(BROWN if variant is None else HEADS[variant].colour, MARKERS[variant], HEADS[variant].line)


def base_look(cell: Any) -> Look:
    return Look(GREY, "+", ":", neutral=True)
