"""Without privacy dashed or dotted, private solid."""

from __future__ import annotations

from dpgraph.methods.looks import (
    BLUE,
    BROWN,
    GREEN,
    OLIVE,
    ORANGE,
    PURPLE,
    SKY,
    TEAL,
    VERMILION,
    WINE,
    Look,
    by_architecture,
)

plain = by_architecture(
    {
        ("gcn", 1): Look(GREEN, "v", (0, (5, 1.5))),
        ("gcn", 2): Look(SKY, "<", (0, (8, 2))),
        ("gin", 1): Look(OLIVE, "v", (0, (5, 1, 1, 1))),
        ("gin", 2): Look(OLIVE, "<", (0, (8, 1, 1, 1))),
        ("gat", 1): Look(BROWN, "v", (0, (5, 1, 1, 1, 1, 1))),
        ("gat", 2): Look(BROWN, "<", (0, (8, 1, 1, 1, 1, 1))),
        ("mlp", 0): Look(ORANGE, ">", (0, (1, 1.5))),
    }
)
private = by_architecture(
    {
        ("gcn", 1): Look(BLUE, "o", "-"),
        ("gcn", 2): Look(PURPLE, "s", "-"),
        ("gin", 1): Look(TEAL, "o", (0, (12, 1))),
        ("gin", 2): Look(TEAL, "s", (0, (12, 1))),
        ("gat", 1): Look(WINE, "o", (0, (9, 1, 3, 1))),
        ("gat", 2): Look(WINE, "s", (0, (9, 1, 3, 1))),
        ("mlp", 0): Look(VERMILION, "^", "-"),
    }
)
