"""By variant and optimiser, which the papers compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgraph.methods.looks import (
    ANY,
    BLACK,
    BLUE,
    BROWN,
    GREEN,
    OLIVE,
    ORANGE,
    PURPLE,
    SKY,
    SLATE,
    TEAL,
    VERMILION,
    WINE,
    Look,
)

PLAIN = {
    "adam": Look(GREEN, "v", (0, (5, 1.5))),
    "sgd": Look(OLIVE, "^", (0, (5, 1, 1, 1))),
}
LOOKS = {
    ("published", "adam"): Look(BLUE, "o", (0, (7, 2))),
    ("published", "sgd"): Look(VERMILION, "s", (0, (2.5, 1.2))),
    ("released", "adam"): Look(BROWN, "X", (0, (7, 2, 1, 2))),
    ("released", "sgd"): Look(ORANGE, "P", (0, (2.5, 1.2, 1, 1.2))),
    ("per-node", "adam"): Look(SKY, "<", (0, (5, 1, 1, 1, 1, 1))),
    ("per-node", "sgd"): Look(BLACK, ">", (0, (5, 1, 1, 1, 1, 1))),
    ("cut", "adam"): Look(SLATE, "v", (0, (7, 1.5, 1, 1.5))),
    ("cut", "sgd"): Look(PURPLE, "^", (0, (3, 1, 1, 1, 1, 1))),
    ("rigorous", "adam"): Look(TEAL, "D", "-"),
    ("rigorous", "sgd"): Look(WINE, "h", "-"),
}
NOISE = Look("#8A8A8A", "d", (0, (3, 2)), neutral=True)


def plain(cell: Any) -> Look:
    return PLAIN.get(cell.training.optimizer, ANY)


def private(cell: Any) -> Look:
    return LOOKS.get((cell.privacy.variant, cell.training.optimizer), ANY)


def noise(cell: Any) -> Look:
    return replace(NOISE, marker="p") if cell.training.optimizer == "sgd" else NOISE
