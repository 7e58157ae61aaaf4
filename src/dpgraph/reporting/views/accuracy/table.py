"""Accuracy tables as people read them."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import chance, display, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import Footnotes, MadeTable, Table, Text
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.ranking import REMARK
from dpgraph.reporting.views.accuracy.rows import accuracy_table

# the empty one is headed by the metric
ACCURACY_COLUMNS = [
    "Method", "Target ε", "", "Seeds", *display.EPSILON_HEADS, "Paper (%)", "Paper’s ε (rigorous)", "Difference",
]  # fmt: skip


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    frame = accuracy_table(plan, artefact_id, results)
    shown = chance.shown_as(plan.artefacts[artefact_id])
    return MadeTable(frame, accuracy_display(heading(plan, artefact_id), frame, shown))


def accuracy_display(title: str, table: pd.DataFrame, shown: Quantity) -> Table:
    """From `accuracy_table`: a block per task; the quantity heads the values."""
    notes = Footnotes()
    tested = "above_chance" in table
    blocks = display.by_task(
        table, lambda row: _accuracy_cells(row, notes) + [Text(row.get("above_chance") or DASH)] * tested
    )
    remarks = [
        "Values: mean ± sample standard deviation over the seeds. Difference: ours minus the paper’s"
        f"{shown.difference and f', in {shown.difference}'}.",
        *display.reference_remarks(table, shown),
        "Target ε: of the rigorous accountant; of the published one for the paper’s mechanism.",
        f"{display.EPSILON_REMARK} Paper’s ε: as printed, of the published relation, with what is proved of that run.",
        *([REMARK] if table["rank"].any() else []),
        *protection.remarks(table),
        *[chance.REMARK] * tested,
    ]
    brief = [
        "Values: mean ± sample standard deviation over the seeds. Difference: ours minus the paper’s. "
        "ε published: by the paper’s formula; ε rigorous: proved; none: nothing is guaranteed.",
        *display.reference_remarks(table, shown),
        *([REMARK] if table["rank"].any() else []),
        *protection.brief(table),
        *[chance.REMARK] * tested,
    ]
    heads = {
        "": shown.label[0].upper() + shown.label[1:],
        "Paper (%)": f"Paper ({shown.unit})" if shown.unit else "Paper",
    }
    columns = [heads.get(name, name) for name in ACCURACY_COLUMNS] + [chance.HEAD] * tested
    return Table(title, columns, blocks, notes.texts, remarks, brief=brief)


def _accuracy_cells(row: dict, notes: Footnotes) -> list[Text]:
    printed = bool(row["published_text"])
    return [
        Text(row["label"], (notes.number(row["fallback"]),) if row["fallback"] else ()),
        display.target_cell(row),
        Text(formats.mean_std(row["mean"], row["std"]), bold=bool(row["rank"]))
        if row["status"] == "ok"
        else display.failure(row, notes),
        display.seeds_cell(row, notes),
        *display.epsilon_cells(row, notes),
        Text(row["published_text"] if printed else display.NOT_IN_PAPER),
        Text(_printed_epsilon(row) if printed else DASH),
        Text(formats.difference(row["difference"])),
    ]


def _printed_epsilon(row: dict) -> str:
    if row["published_epsilon"] == "inf":
        return "∞"
    return f"{row['published_epsilon'] or 'not printed'} ({row['published_epsilon_rigorous']})"
