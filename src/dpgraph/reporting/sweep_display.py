"""A sweep as people read it: a block per task and budget, for each value ours, both epsilons, the paper's number."""

from __future__ import annotations

import math

import pandas as pd

from dpgraph.reporting import formats
from dpgraph.reporting.display import (
    DASH,
    EPSILON_REMARK,
    Block,
    Footnotes,
    Table,
    Text,
    adjacency_remarks,
    epsilon_cell,
    failure,
    with_delta,
)

GAP = "Gap: "


def sweep_display(title: str, table: pd.DataFrame, metric: str, parameter: str) -> Table:
    """From `sweep_table`: columns are methods and the gaps of the private ones, `parameter` heads the values."""
    notes = Footnotes()
    methods = dict(zip(table["method"], table["label"]))
    gaps = list(dict.fromkeys(table.loc[table["gap_reference"] != "", "method"]))
    blocks = [
        _block(part, target, list(methods), gaps, notes)
        for _, part in table.groupby("task", sort=False)
        for target in (sorted(part["epsilon_target"].dropna().unique()) or [math.nan])
    ]
    columns = [parameter, "", *methods.values(), *(f"{GAP}{methods[method]}" for method in gaps)]
    remarks = [
        f"Ours: {metric}, mean ± sample standard deviation over the seeds (their number). Gap: without privacy minus "
        "private, at the same value. Ours − paper’s: in points.",
        EPSILON_REMARK,
        *adjacency_remarks(table),
    ]
    return Table(title, columns, blocks, notes.texts, remarks, text_columns=2)


def _block(part: pd.DataFrame, target: float, methods: list[str], gaps: list[str], notes: Footnotes) -> Block:
    part = part[part["epsilon_target"].isna() | (part["epsilon_target"] == target)]
    label = str(part["task_label"].iloc[0])
    title = label if math.isnan(target) else f"{label}, target ε = {formats.significant(target)}"
    rows: list[list[Text]] = []
    for value, at in part.groupby("value", sort=False):
        found = {row["method"]: row for row in at.to_dict("records")}
        line = [found.get(method) for method in methods]
        gap = [found.get(method) for method in gaps]
        ours = [_ours(row, notes) for row in line]
        rows.append([Text(str(value)), Text("ours"), *ours, *(_gap(row) for row in gap)])
        both = [_epsilons(row, notes) for row in line]
        rows.append([Text(""), Text("ε published / rigorous"), *both, *[Text("")] * len(gap)])
        if any(row and row["published_text"] for row in line):
            printed = [Text(row["published_text"] or DASH if row else DASH) for row in line]
            printed_gap = [_number(row, "gap_published", 3) for row in gap]
            rows.append([Text(""), Text("paper’s"), *printed, *printed_gap])
            less = [Text(formats.difference(row["difference"]) if row else DASH) for row in line]
            less_gap = [Text(formats.difference(row["gap_difference"]) if row else DASH) for row in gap]
            rows.append([Text(""), Text("ours − paper’s"), *less, *less_gap])
    return Block(with_delta(title, part), rows)


def _ours(row: dict | None, notes: Footnotes) -> Text:
    if row is None:
        return Text(DASH)
    if row["status"] != "ok":
        return failure(row, notes)
    of = "" if row["n"] == row["n_planned"] else f" of {row['n_planned']}"
    text = f"{formats.mean_std(row['mean'], row['std'])} ({row['n']}{of})"
    return Text(text, (notes.number(row["reason"]),) if row["reason"] else ())


def _epsilons(row: dict | None, notes: Footnotes) -> Text:
    if row is None:
        return Text(DASH)
    both = [epsilon_cell(row, mode, notes) for mode in ("published", "rigorous")]
    if all(cell.value == DASH for cell in both):
        return Text(DASH)
    return Text(" / ".join(cell.value for cell in both), tuple(note for cell in both for note in cell.notes))


def _gap(row: dict | None) -> Text:
    if row is None or math.isnan(row["gap"]):
        return Text(DASH)
    error = "" if math.isnan(row["gap_error"]) else f" ± {row['gap_error']:.2f}"
    return Text(f"{row['gap']:.2f}{error}".replace("-", "−"))


def _number(row: dict | None, name: str, decimals: int) -> Text:
    return Text(DASH if row is None or math.isnan(row[name]) else f"{row[name]:.{decimals}f}")
