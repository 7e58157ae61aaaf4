"""What a suite shows and does not run for want of compute, and what is timed to say how long it would take."""

from __future__ import annotations

from typing import Any

from dpgraph.experiments.cell import Cell
from dpgraph.planning.plan import Plan

COMPUTE = "compute"  # `Grid.not_run`


def needs_speeds(plan: Plan) -> bool:
    """Whether the suite leaves something out for want of compute."""
    return any(entry.not_run == COMPUTE for entry in plan.left_out.values())


def cells_to_time(plan: Plan) -> dict[tuple[str, str, int], Cell]:
    """Of every data set, encoder and longest text that the suite fine-tunes, or would if it had the time, the first
    cell; not those that it leaves out for another reason."""
    found: dict[tuple[str, str, int], Cell] = {}
    for entry in plan.entries:
        if entry.not_run in (None, COMPUTE) and _trains_an_encoder(entry.cell):
            model: Any = entry.cell.model  # type: ignore[attr-defined]
            found.setdefault((entry.cell.task.dataset, model.encoder, model.max_tokens), entry.cell)
    return found


def _trains_an_encoder(cell: Cell) -> bool:
    return hasattr(getattr(cell, "model", None), "encoder") and hasattr(cell.training, "negatives")
