"""Without privacy dashed or dotted, private solid."""

from __future__ import annotations

from dpgraph.engine.methods import looks
from dpgraph.engine.methods.looks import Look

plain = looks.by_architecture(
    {
        ("gcn", 1): Look(looks.GREEN, "v", (0, (5, 1.5))),
        ("gcn", 2): Look(looks.SKY, "<", (0, (8, 2))),
        ("gin", 1): Look(looks.OLIVE, "v", (0, (5, 1, 1, 1))),
        ("gin", 2): Look(looks.OLIVE, "<", (0, (8, 1, 1, 1))),
        ("gat", 1): Look(looks.BROWN, "v", (0, (5, 1, 1, 1, 1, 1))),
        ("gat", 2): Look(looks.BROWN, "<", (0, (8, 1, 1, 1, 1, 1))),
        ("mlp", 0): Look(looks.ORANGE, ">", (0, (1, 1.5))),
    }
)
private = looks.by_architecture(
    {
        ("gcn", 1): Look(looks.BLUE, "o", "-"),
        ("gcn", 2): Look(looks.PURPLE, "s", "-"),
        ("gin", 1): Look(looks.TEAL, "o", (0, (12, 1))),
        ("gin", 2): Look(looks.TEAL, "s", (0, (12, 1))),
        ("gat", 1): Look(looks.WINE, "o", (0, (9, 1, 3, 1))),
        ("gat", 2): Look(looks.WINE, "s", (0, (9, 1, 3, 1))),
        ("mlp", 0): Look(looks.VERMILION, "^", "-"),
    }
)
