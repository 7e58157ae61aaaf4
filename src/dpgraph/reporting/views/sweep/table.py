"""A sweep as people read it: a block per task and budget, for each value ours, both epsilons, the paper's number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import chance, display, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.views.sweep.rows import as_number, sweep_table


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    frame, artefact = sweep_table(plan, artefact_id, results), plan.artefacts[artefact_id]
    parameter = artefact.sweep.label if artefact.sweep is not None else ""
    return MadeTable(frame, sweep_display(heading(plan, artefact_id), frame, chance.shown_as(artefact), parameter))


def sweep_display(title: str, table: pd.DataFrame, shown: Quantity, parameter: str) -> Table:
    """From `sweep_table`: columns are methods, `parameter` heads the values."""
    notes = Footnotes()
    methods = dict(zip(table["method"], table["label"]))
    blocks = [
        _block(part, target, list(methods), notes)
        for _, part in table.groupby("task", sort=False)
        for target in (sorted(part["epsilon_target"].dropna().unique()) or [math.nan])
    ]
    gap = (
        " Gap: without privacy minus private, at the same value, ± its standard error."
        if table["gap"].notna().any()
        else ""
    )
    remarks = [
        f"Ours: {shown.label}, mean ± sample standard deviation over the seeds (how many).{gap} In brackets: ours "
        f"minus the paper’s{shown.difference and f', in {shown.difference}'}.",
        *display.reference_remarks(table, shown),
        display.EPSILON_REMARK,
        *protection.remarks(table),
        *[chance.REMARK] * ("above_chance" in table),
    ]
    return Table(title, [parameter, "", *methods.values()], blocks, notes.texts, remarks, text_columns=2)


def _block(part: pd.DataFrame, target: float, methods: list[str], notes: Footnotes) -> RowGroup:
    part = part[part["epsilon_target"].isna() | (part["epsilon_target"] == target)]
    label = str(part["task_label"].iloc[0])
    title = label if math.isnan(target) else f"{label}, target ε = {formats.significant(target)}"
    protected = _same_protection(part, methods)
    rows = [] if protected is None else _protection(protected)
    # by number, words after them as the suite lists them: several grids of a suite may each have some of the values
    for value, at in sorted(part.groupby("value", sort=False), key=lambda group: _order(str(group[0]))):
        by_method = {row["method"]: row for row in at.to_dict("records")}
        line = [by_method.get(method) for method in methods]
        rows.append([Text(str(value)), Text("ours"), *(_ours(row, notes) for row in line)])
        if "above_chance" in part:
            rows.append(
                [Text(""), Text(chance.HEAD), *(Text(row["above_chance"] or DASH if row else DASH) for row in line)]
            )
        rows.append([Text(""), Text("ε published / rigorous"), *(_epsilons(row, notes) for row in line)])
        if protected is None:
            rows += _protection(line)
        if any(row and row["published_text"] for row in line):
            rows.append([Text(""), Text("paper’s"), *map(_printed, line)])
        if any(row and not math.isnan(row["gap"]) for row in line):
            rows.append([Text(""), Text("gap"), *map(_gap, line)])
        if any(row and not math.isnan(row["gap_published"]) for row in line):
            rows.append([Text(""), Text("paper’s gap"), *map(_printed_gap, line)])
    return RowGroup(display.with_delta(title, part), rows)


def _protection(line: Sequence[dict | None]) -> list[list[Text]]:
    """Rows that say relation and scope of each method's epsilons."""
    return [
        [Text(""), Text(name), *(Text(DASH if row is None else protection.both(row, name)) for row in line)]
        for name in ("relation", "scope")
    ]


def _same_protection(part: pd.DataFrame, methods: list[str]) -> list[dict | None] | None:
    """A row of each method, if all rows of the method that have epsilons agree; else None."""
    agreed: list[dict | None] = []
    for method in methods:
        rows = [row for row in part[part["method"] == method].to_dict("records") if row["relation_rigorous"]]
        if len({tuple(protection.both(row, name) for name in ("relation", "scope")) for row in rows}) > 1:
            return None
        agreed.append(rows[0] if rows else None)
    return agreed


def _order(value: str) -> tuple[bool, float]:
    number = as_number(value)
    return number is None, number or 0.0


def _ours(row: dict | None, notes: Footnotes) -> Text:
    if row is None:
        return Text(DASH)
    if row["status"] != "ok":
        return display.failure(row, notes)
    of = "" if row["n"] == row["n_planned"] else f" of {row['n_planned']}"
    text = f"{formats.mean_std(row['mean'], row['std'])} ({row['n']}{of})"
    return Text(text, (notes.number(row["reason"]),) if row["reason"] else ())


def _epsilons(row: dict | None, notes: Footnotes) -> Text:
    if row is None:
        return Text(DASH)
    both = [display.epsilon_cell(row, mode, notes) for mode in ("published", "rigorous")]
    if all(cell.value == DASH for cell in both):
        return Text(DASH)
    return Text(" / ".join(cell.value for cell in both), tuple(note for cell in both for note in cell.notes))


def _printed(row: dict | None) -> Text:
    if row is None or not row["published_text"]:
        return Text(DASH)
    own = row["published_epsilon"] not in ("", "inf", "all") and math.isnan(row["epsilon_target"])
    at = f" at ε {row['published_epsilon']}" if own else ""
    return Text(row["published_text"] + at + _bracket(row["difference"]))


def _gap(row: dict | None) -> Text:
    if row is None or math.isnan(row["gap"]):
        return Text(DASH)
    return Text(formats.mean_std(row["gap"], row["gap_error"]).replace("-", "−"))


def _printed_gap(row: dict | None) -> Text:
    if row is None or math.isnan(row["gap_published"]):
        return Text(DASH)
    return Text(f"{row['gap_published']:.3f}" + _bracket(row["gap_difference"]))


def _bracket(value: float) -> str:
    return "" if math.isnan(value) else f" ({formats.difference(value)})"
