"""The folder that may be published: a function of the mechanism's output and of public values, and of nothing else.

What writes it is never given the graph: its arguments are the model (noisy parameters and buckets), the card (public
numbers) and the budget. Rows of predictions are in it under the scope of all outputs alone, worked out from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.files import write_rows
from dpgraph.own_graph.budget import Budgeted
from dpgraph.own_graph.card import CURVE, draw_curve, markdown
from dpgraph.own_graph.model import SavedModel, as_json

PREDICTIONS = "predictions.csv"


def write_release(folder: Path, model: SavedModel, card: dict[str, Any], what: Budgeted, *, scope: str) -> None:
    """model, card and curve; the curve only where the noise was secret, since of a known seed nothing is promised."""
    model.save(folder)
    (folder / "card.json").write_text(as_json(card), encoding="utf-8")
    (folder / "card.md").write_text(markdown(card), encoding="utf-8")
    if model.header.secret:
        draw_curve(what, folder / CURVE)
    if scope == "all-outputs":
        write_rows(folder / PREDICTIONS, predictions(model.header.ids, model.header.classes, model.outputs()))


def predictions(ids: Sequence[str], classes: Sequence[str], rows: np.ndarray) -> list[list[Any]]:
    """Return a line of heads and one for each node: its id, the likeliest class, and the probability of each."""
    numbers = zip(ids, rows.argmax(axis=1).tolist(), np.round(rows, 6).tolist(), strict=True)
    heads = ["id", "prediction", *(f"probability of {name}" for name in classes)]
    return [heads, *([name, classes[place], *row] for name, place, row in numbers)]
