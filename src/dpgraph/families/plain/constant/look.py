"""What reads no record, or nothing but labels: in grey, behind all others."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.looks import Look


def random(cell: Any) -> Look:
    return Look("#A0A0A0", "", (0, (1, 2)), neutral=True)


def majority(cell: Any) -> Look:
    return Look("#606060", "", (0, (1, 1)), neutral=True)
