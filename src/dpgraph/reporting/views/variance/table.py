"""Where the spread comes from, as people read it."""

from __future__ import annotations

import math

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import Footnotes, MadeTable, Table, Text
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.quantities import Quantity, quantity
from dpgraph.reporting.views.variance.rows import PARTS, variance_table

SHOWN_PAIRS = 5  # one of `rows.PAIRS`; the CSV file has all of them
HEADS = {"split": "splits", "initialisation": "initialisations", "rest": "rest"}
ERROR_HEADS = {
    "pairs": f"Error of {SHOWN_PAIRS} pairs",
    "stated": f"Stated by {SHOWN_PAIRS} on one split",
    "one_split": f"Error of {SHOWN_PAIRS} on one split",
}


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    frame = variance_table(plan, artefact_id, results)
    return MadeTable(
        frame, variance_display(heading(plan, artefact_id), frame, quantity(plan.artefacts[artefact_id].metric))
    )


def variance_display(title: str, table: pd.DataFrame, shown: Quantity) -> Table:
    """From `variance_table`: a block per task."""
    notes = Footnotes()
    columns = [
        "Method",
        "Target ε",
        shown.label[0].upper() + shown.label[1:],
        "Splits × init.",
        *(f"Std of {HEADS[part]}" for part in PARTS),
        *(f"Share of {HEADS[part]} (%)" for part in PARTS),
        *ERROR_HEADS.values(),
        *display.EPSILON_HEADS,
    ]
    remarks = [
        "Every split is trained with every initialisation. Value: mean ± its standard error for new splits and "
        "initialisations. Std and errors are in points, in brackets their 95 % interval; shares are of the variance.",
        "Initialisations: initial parameters, dropout masks and public keys of samplers, the same on every split. "
        "Rest: batches and, with privacy, noise, which each run draws anew, and what split and initialisation do "
        "together.",
        f"Errors: standard errors of a mean. {SHOWN_PAIRS} pairs: each run with a split and an initialisation of its "
        "own, which is how seeds are made wherever splits are random. On one split: what such runs state, and what "
        "their mean has as an estimate for any split.",
        "Two-way random effects with normal parts; estimates from mean squares, 0 where those are negative; "
        "generalised confidence intervals. One from 0 to 0 says that the mean square is below what the rest alone "
        "gives in most tables, which is chance and no proof of 0. Splits are random ones of one graph, and share most "
        "of its nodes: what another graph would change is in none of this.",
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    return Table(title, columns, display.by_task(table, lambda row: _cells(row, notes)), notes.texts, remarks)


def _cells(row: dict, notes: Footnotes) -> list[Text]:
    head = [Text(row["label"]), display.target_cell(row)]
    if row["status"] != "ok":
        return [
            *head,
            display.failure(row, notes),
            *[Text(DASH)] * (4 + 2 * len(PARTS)),
            *display.epsilon_cells(row, notes),
        ]
    some = (notes.number(row["reason"]),) if row["reason"] else ()
    return [
        *head,
        Text(formats.mean_std(row["mean"], row["mean_error"])),
        Text(f"{int(row['splits'])} × {int(row['initialisations'])}", some),
        *(_with_interval(row, f"sd_{part}", 2) for part in PARTS),
        *(_with_interval(row, f"share_{part}", 0) for part in PARTS),
        *(_with_interval(row, f"se_{name}_{SHOWN_PAIRS}", 2) for name in ERROR_HEADS),
        *display.epsilon_cells(row, notes),
    ]


def _with_interval(row: dict, name: str, decimals: int) -> Text:
    if math.isnan(row[name]):
        return Text(DASH)
    value, low, high = (f"{row[key]:.{decimals}f}" for key in (name, f"{name}_low", f"{name}_high"))
    return Text(f"{value} ({low} to {high})")
