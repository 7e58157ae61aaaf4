"""By variant and optimiser, which the papers compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgraph.engine.methods import looks
from dpgraph.engine.methods.looks import Look

PLAIN = {
    "adam": Look(looks.GREEN, "v", (0, (5, 1.5))),
    "sgd": Look(looks.OLIVE, "^", (0, (5, 1, 1, 1))),
}
LOOKS = {
    ("published", "adam"): Look(looks.BLUE, "o", (0, (7, 2))),
    ("published", "sgd"): Look(looks.VERMILION, "s", (0, (2.5, 1.2))),
    ("released", "adam"): Look(looks.BROWN, "X", (0, (7, 2, 1, 2))),
    ("released", "sgd"): Look(looks.ORANGE, "P", (0, (2.5, 1.2, 1, 1.2))),
    ("per-node", "adam"): Look(looks.SKY, "<", (0, (5, 1, 1, 1, 1, 1))),
    ("per-node", "sgd"): Look(looks.BLACK, ">", (0, (5, 1, 1, 1, 1, 1))),
    ("cut", "adam"): Look(looks.SLATE, "v", (0, (7, 1.5, 1, 1.5))),
    ("cut", "sgd"): Look(looks.PURPLE, "^", (0, (3, 1, 1, 1, 1, 1))),
    ("rigorous", "adam"): Look(looks.TEAL, "D", "-"),
    ("rigorous", "sgd"): Look(looks.WINE, "h", "-"),
}
NOISE = Look("#8A8A8A", "d", (0, (3, 2)), neutral=True)


def plain(cell: Any) -> Look:
    return PLAIN.get(cell.training.optimizer, looks.ANY)


def private(cell: Any) -> Look:
    return LOOKS.get((cell.privacy.variant, cell.training.optimizer), looks.ANY)


def noise(cell: Any) -> Look:
    return replace(NOISE, marker="p") if cell.training.optimizer == "sgd" else NOISE
