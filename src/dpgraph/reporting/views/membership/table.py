"""Membership inference as people read it: each measure of both attacks, next to the bound of the rigorous epsilon."""

from __future__ import annotations

import math

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, Table, Text
from dpgraph.reporting.views.membership.attacks import RATES, SCORES, attacks, membership_table

MEASURES = {"auc": "AUC", "advantage": "Advantage"} | {
    f"tpr_at_{rate:g}": f"TPR at FPR {100 * rate:g} %" for rate in RATES
}
COLUMNS = ["Method", "Attack", "Target ε", *display.EPSILON_HEADS, "Seeds", *MEASURES.values()]
NO_BOUND = "no bound"
WHAT = (
    "Members: roots of training, redrawn for each seed; others: candidates that are no roots. Attacked is that a "
    "node’s label had a loss; the guarantee covers its features and edges, too. Loss threshold: Yeom et al. 2018; "
    "calibrated by the loss in seeds without the node: Watson et al. 2022."
)
BOUND = (
    "The bound is that of the rigorous (ε, δ) for another node in a root’s place; where this takes two steps of the "
    "guarantee (the roots’ own records only, or a share of the nodes kept), that of (2ε, (1 + e^ε) δ)."
)


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    frame = membership_table(attacks(plan, artefact_id, results))
    return MadeTable(frame, membership_display(heading(plan, artefact_id), frame))


def membership_display(title: str, table: pd.DataFrame) -> Table:
    """From `membership_table`: a block per task, two rows per entry."""
    notes = Footnotes()
    blocks = display.by_task(table, lambda row: _cells(row, notes), _title)
    remarks = [
        f"Mean ± sample standard deviation over the seeds, in brackets the bound. {BOUND}",
        WHAT + " Advantage: largest TPR − FPR, its threshold chosen in hindsight" + _by_chance(table),
        "Nodes and seeds are shared between measurements: the standard deviation is none of independent runs.",
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    return Table(title, COLUMNS, blocks, notes.texts, remarks, text_columns=2)


def _title(part: pd.DataFrame) -> str:
    label = display.with_delta(str(part["task_label"].iloc[0]), part)
    sizes = part.loc[(part["score"] == "loss") & (part["members"] > 0), ["members", "others"]].drop_duplicates()
    if len(sizes) != 1:
        return label
    members, others = (formats.count(size) for size in sizes.iloc[0])
    return f"{label}: {members} members, {others} others"


def _by_chance(table: pd.DataFrame) -> str:
    chance = table["advantage_by_chance"].dropna()
    if chance.empty:
        return "."
    low, high = (f"{value:.3f}" for value in (chance.min(), chance.max()))
    return f", which without any leak gives about {low if low == high else f'{low} to {high}'}."


def _cells(row: dict, notes: Footnotes) -> list[Text]:
    measured = not math.isnan(row["auc_mean"])
    if measured:
        values = [Text(_measure(row, name)) for name in MEASURES]
    else:
        status = row if row["status"] != "ok" else row | {"status": "not available"}
        status = status | {"reason": status["reason"].removeprefix("not available: ")}
        values = [display.failure(status, notes), *[Text(DASH)] * (len(MEASURES) - 1)]
    return [
        Text(row["label"]),
        Text(SCORES[row["score"]]),
        display.target_cell(row),
        *display.epsilon_cells(row, notes),
        Text(str(row["n"]) if measured else DASH),
        *values,
    ]


def _measure(row: dict, name: str) -> str:
    bound = row[f"{name}_bound"]
    # a bound is never shown better than it is
    text = NO_BOUND if math.isnan(bound) else f"≤ {min(1.0, math.ceil(1e3 * bound - 1e-9) / 1e3):.3f}"
    return f"{formats.mean_std(row[f'{name}_mean'], row[f'{name}_std'], 3)} ({text})"
