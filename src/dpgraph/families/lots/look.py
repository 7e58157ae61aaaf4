"""By variant and optimiser."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.looks import ANY, VERMILION, WINE, Look, adapted

LOOKS = {
    ("published", "sgd"): Look(VERMILION, "s", (0, (2.5, 1.2))),
    ("rigorous", "sgd"): Look(WINE, "h", "-"),
}


def look(cell: Any) -> Look:
    return LOOKS.get((cell.privacy.variant, cell.training.optimizer)) or adapted(ANY, cell)
