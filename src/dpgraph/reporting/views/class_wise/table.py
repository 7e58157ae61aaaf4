"""What privacy does to rare classes, as people read it."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, Table, Text
from dpgraph.reporting.results import class_counts
from dpgraph.reporting.views.class_wise.rows import MEASURES, fairness_table

COLUMNS = [
    "Method", "Target ε", *display.EPSILON_HEADS, "Seeds", "Accuracy (%)", "Worst class (%)", "Best − worst",
    "Frequent − rare third", "Correlation of loss with frequency",
]  # fmt: skip


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    frame = fairness_table(plan, artefact_id, results, class_counts(plan, artefact_id, results))
    return MadeTable(frame, fairness_display(heading(plan, artefact_id), frame))


def fairness_display(title: str, table: pd.DataFrame) -> Table:
    """From `fairness_table`: a block per task."""
    notes = Footnotes()
    blocks = display.by_task(table, lambda row: _cells(row, notes), _title)
    remarks = [
        "Mean ± sample standard deviation over the seeds. Classes are those of the test nodes; thirds are by frequency "
        "in the training data. Loss: accuracy without privacy minus private, of the same seed. Its rank correlation "
        "with frequency (Spearman) is below 0 where rarer classes lose more.",
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    return Table(title, COLUMNS, blocks, notes.texts, remarks)


def _title(part: pd.DataFrame) -> str:
    classes = int(part["classes"].max())
    return display.with_delta(str(part["task_label"].iloc[0]) + (f", {classes} classes" if classes else ""), part)


def _cells(row: dict[str, Any], notes: Footnotes) -> list[Text]:
    ok = row["status"] == "ok"
    measures = [_measure(row, name) for name in MEASURES] if ok else [display.failure(row, notes), *[Text(DASH)] * 4]
    return [
        Text(row["label"]),
        display.target_cell(row),
        *display.epsilon_cells(row, notes),
        display.seeds_cell(row, notes),
        *measures,
    ]


def _measure(row: dict[str, Any], name: str) -> Text:
    mean = row[f"{name}_mean"]
    if math.isnan(mean):
        return Text(DASH)
    return Text(formats.mean_std(mean, row[f"{name}_std"]).replace("-", "−"))
