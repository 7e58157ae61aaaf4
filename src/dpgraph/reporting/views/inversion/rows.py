"""Distances of model inversion, of each class and their means (Zhang 2021, Tables 4.1, 4.2, Figures 4.6, 4.11)."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.problems.images.exposure import BLANK, BY_CLASS, L2, MEMBERSHIP, RECOGNISED, SSIM
from dpgraph.reporting.artefacts import described, of_entry
from dpgraph.reporting.paper_values import paper_class_values
from dpgraph.reporting.results import EntryResult, Results, over_seeds

ACCURACY = "accuracy/test"
MEASURES = {
    "accuracy": ACCURACY,
    "l2": L2,
    "ssim": SSIM,
    "recognised": RECOGNISED,
    "blank": BLANK,
    "membership": MEMBERSHIP,
}
MEAN = -1  # class of a row of means


def inversion_rows(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """A row per entry with its means, `class_id` -1, and one for each class of the artefact's metric.

    `distance` is the artefact's metric, with mean, std and 95 % interval over seeds; `distance_published` what the
    paper prints of the class. Rows of means have accuracy and shares in percent, both distances and that of a black
    image; `attack` is original, enhanced or strong.
    """
    known, metric = Results.of(results), plan.artefacts[artefact_id].metric
    rows: list[dict[str, Any]] = []
    for entry in plan.entries_of(artefact_id):
        outcome = known.outcome(entry, metric)
        told = entry.cell.inversion  # type: ignore[attr-defined]
        head = described(entry, outcome) | {"value": of_entry(entry, "value")["value"], "attack": told.attack}
        rows.append(head | {"class_id": MEAN} | _means(entry, outcome, known) | _printed(math.nan))
        printed = paper_class_values(plan.experiments[entry.paper], entry, metric)
        by_class = known.by_class(entry, BY_CLASS + metric)
        for number in sorted({*map(int, by_class), *printed}):
            values = by_class[number].dropna() if number in by_class else pd.Series(dtype=float)
            own = EntryResult("ok", "", values, metric=metric)
            rows.append(head | {"class_id": number} | _distance(own) | _printed(printed.get(number)))
    return pd.DataFrame(rows)


def _means(entry: Entry, outcome: EntryResult, known: Results) -> dict[str, float]:
    columns = _distance(outcome)
    for name, metric in MEASURES.items():
        columns |= over_seeds(name, known.outcome(entry, metric).shown)
    return columns


def _distance(outcome: EntryResult) -> dict[str, float]:
    summary = outcome.summary()
    return {"distance": summary.mean, **{name: value for name, value in summary.columns.items() if name != "mean"}}


def _printed(text: str | float | None) -> dict[str, float]:
    return {"distance_published": math.nan if text is None else float(text)}
