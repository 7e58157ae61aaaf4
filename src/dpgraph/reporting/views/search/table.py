"""A search as people read it: for each task, method and target the best trials, the selected one marked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import (
    EPSILON_HEADS,
    EPSILON_REMARK,
    Footnotes,
    MadeTable,
    RowGroup,
    Table,
    Text,
    epsilon_cells,
    failure,
    target_cell,
    with_delta,
)
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.search.best import best_settings
from dpgraph.reporting.views.search.rows import search_of, search_table

SHOWN = 5  # trials of each method, task and target (and of each relation and scope); the CSV file has all
KINDS = ["method", "epsilon_target", "relation_rigorous", "scope_rigorous"]


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Return the trials; `best.yaml` holds the selected settings as rules of a suite."""
    frame = search_table(plan, artefact_id, results)
    metrics = (search_of(plan, artefact_id).metric, plan.artefacts[artefact_id].metric)
    table = search_display(heading(plan, artefact_id), frame, *(quantity(metric).label for metric in metrics))
    return MadeTable(frame, table, {"best.yaml": best_settings(plan, artefact_id, frame)})


def search_display(title: str, table: pd.DataFrame, validation: str, test: str) -> Table:
    """From `search_table`: a block per task; `validation` and `test` head the values."""
    notes = Footnotes()
    blocks = []
    for _, part in table.groupby("task", sort=False):
        best = part.groupby(KINDS, sort=False, dropna=False).head(SHOWN)
        rows = [_cells(row, notes) for row in best.to_dict("records")]
        blocks.append(RowGroup(with_delta(str(part["task_label"].iloc[0]), part), rows))
    values = [validation.capitalize(), test.capitalize()]
    columns = ["Method", "Settings", "Target ε", "Rank", *values, *EPSILON_HEADS, "ε with tuning"]
    remarks = [
        f"Trials by their mean on validation nodes, at most {SHOWN} of each method and target; the CSV file has all. "
        "Where their relation or scope differ, those of one kind are ranked separately. "
        "Values: mean ± sample standard deviation over the seeds. The test value is given for the selected trial only.",
        EPSILON_REMARK,
        "ε with tuning: of releasing the selected run alone (not the other trials or their number); all its seeds are "
        "counted. Its relation and scope are those of ε rigorous, of data sets with the same validation nodes: "
        "their features, labels and edges are public. "
        "ε published and ε rigorous are of one seed of one trial.",
        *protection.remarks(table),
    ]
    return Table(title, columns, blocks, notes.texts, remarks, text_columns=2)


def _cells(row: dict[str, Any], notes: Footnotes) -> list[Text]:
    selected = row["selected"]
    ranked = not math.isnan(row["rank"])
    return [
        Text(row["label"]),
        Text(settings_text(json.loads(row["settings"]))),
        target_cell(row),
        Text(f"{row['rank']:.0f} of {row['trials']}{', selected' if selected else ''}" if ranked else DASH),
        Text(formats.mean_std(row["validation_mean"], row["validation_std"])) if ranked else failure(row, notes),
        Text(_test(row) if selected else DASH),
        *epsilon_cells(row, notes),
        _tuning(row, notes) if selected else Text(DASH),
    ]


def _test(row: dict[str, Any]) -> str:
    return DASH if math.isnan(row["test_mean"]) else formats.mean_std(row["test_mean"], row["test_std"])


def _tuning(row: dict[str, Any], notes: Footnotes) -> Text:
    if math.isnan(row["tuning_epsilon"]):
        return Text("not accounted", (notes.number(row["tuning_reason"]),))
    return Text(formats.epsilon(row["tuning_epsilon"]) + protection.mark(row))


def settings_text(settings: Mapping[str, Any]) -> str:
    """Last parts of the paths, or whole paths where these would meet.

    >>> settings_text({"training": {"learning_rate": 0.01}, "model": {"width": 64}})
    'learning_rate=0.01, width=64'
    """
    flat = dict(_flat(settings))
    last = [path.rpartition(".")[2] for path in flat]
    names = last if len(set(last)) == len(last) else list(flat)
    return ", ".join(f"{name}={value}" for name, value in zip(names, flat.values(), strict=True))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in settings.items():
        flat += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return flat
