"""The folder that may be published: a function of the mechanism's output and of public values, and of nothing else.

What writes it is never given the graph: its arguments are the model (noisy parameters and buckets), the card (public
numbers) and the budget. Rows of predictions are in it under the scope of all outputs alone, worked out from the model.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dpgraph.own_graph.budget import Budgeted
from dpgraph.own_graph.card import CURVE, draw_curve, markdown
from dpgraph.own_graph.model import HEADER, PARAMETERS, SavedModel, as_json

PREDICTIONS = "predictions.csv"
# What may differ between neighbours by the noise of training, by file: numbers in arrays, not their names, shapes and
# types; fields of an object; columns, by how their names begin. All else is public, and a new field is by default. What
# is chosen by noisy counts (classes, the number of labels) and what follows from it is equal where that noise is.
NOISY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        PARAMETERS: ("bias", "buckets", "reader_bias", "reader_factor", "reader_weight", "row_sum", "weight"),
        HEADER: ("sha256", "shrinkage", "strength"),
        PREDICTIONS: ("prediction", "probability of "),
    }
)


def write_release(folder: Path, model: SavedModel, card: dict[str, Any], what: Budgeted, *, scope: str) -> None:
    """model, card and curve; the curve only where the noise was secret, since of a known seed nothing is promised."""
    model.save(folder)
    (folder / "card.json").write_text(as_json(card), encoding="utf-8")
    (folder / "card.md").write_text(markdown(card), encoding="utf-8")
    if model.header.secret:
        draw_curve(what, folder / CURVE)
    if scope == "all-outputs":
        write_rows(folder / PREDICTIONS, model.header.ids, model.header.classes, model.outputs())


def write_rows(path: Path, ids: Sequence[str], classes: Sequence[str], rows: np.ndarray) -> None:
    """A row for each node: its id, the likeliest class, and the probability of each."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "prediction", *(f"probability of {name}" for name in classes)])
        chosen = rows.argmax(axis=1)
        writer.writerows(
            [name, classes[place], *row]
            for name, place, row in zip(ids, chosen.tolist(), np.round(rows, 6).tolist(), strict=True)
        )
