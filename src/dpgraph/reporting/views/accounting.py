"""Tables of noise and epsilons from calibrations, without training."""

import math
from typing import Any

import pandas as pd

from dpgraph.config.experiment import ACCURACY
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import display, formats, protection
from dpgraph.reporting.aggregate import COLUMNS as RESULT_COLUMNS
from dpgraph.reporting.artefacts import heading, of_entry
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, Table, Text
from dpgraph.reporting.paper_values import paper_value
from dpgraph.reporting.results import PRIVACY, Results

COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "optimizer", "variant", "value",
           "epsilon_target")  # fmt: skip
HEADS = ("Steps", "ε printed", "ε claimed", "Difference", "ε proved", *display.PROTECTION_HEADS)
CALIBRATED = ("noise_std_over_clip", "steps", *PRIVACY, "status", "reason")


def accounting_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row per entry: its calibration's noise, steps and both epsilons, and the epsilon that the paper prints.

    `noise_std_over_clip` is noise std / clip norm per coordinate; `difference` our claimed epsilon minus the printed
    one. An entry without privacy, or whose calibration is missing, is marked as such.
    """
    known = Results.of(results)
    return pd.DataFrame([_row(plan, entry, known) for entry in plan.entries_of(artefact_id)])


def _row(plan: Plan, entry: Entry, known: Results) -> dict[str, Any]:
    printed = _printed(plan, entry)
    row = {
        **of_entry(entry, *COLUMNS),
        **_calibrated(entry, known),
        "published_epsilon": float(printed) if printed else math.nan,
        "published_text": printed,
    }
    row["difference"] = row["eps_published"] - row["published_epsilon"]
    return row | {"calibration": entry.cell.calibration_key or ""}


def _printed(plan: Plan, entry: Entry) -> str:
    """Return the epsilon that the paper prints for the entry, or with its accuracy at the entry's noise."""
    experiment = plan.experiments[entry.paper]
    if (value := paper_value(experiment, entry, "epsilon")) is not None:
        return value.text
    if entry.target_epsilon is not None or (value := paper_value(experiment, entry, ACCURACY)) is None:
        return ""
    return value.epsilon if value.epsilon.replace(".", "", 1).isdigit() else ""


def _calibrated(entry: Entry, known: Results) -> dict[str, Any]:
    rows = known.calibration(entry)
    if len(rows) and rows["status"].iloc[0] == "ok":
        return {name: rows[name].iloc[0] for name in CALIBRATED}
    reason = str(rows["reason"].iloc[0]) if len(rows) else "no privacy" * (entry.cell.calibration_key is None)
    missing = {name: math.nan if RESULT_COLUMNS[name] != "string" else "" for name in CALIBRATED}
    return missing | {"status": "not run", "reason": reason}


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of noise and epsilons."""
    frame, sweep = accounting_table(plan, artefact_id, results), plan.artefacts[artefact_id].sweep
    return MadeTable(frame, accounting_display(heading(plan, artefact_id), frame, sweep.label if sweep else ""))


def accounting_display(title: str, table: pd.DataFrame, parameter: str) -> Table:
    """Lay out the rows of `accounting_table`, a block per task; `parameter` heads the values of a sweep, if any."""
    notes = Footnotes()
    names = (parameter, "Target ε", "Noise std / clip norm")
    shown = [bool((table["value"] != "").any()), bool(table["epsilon_target"].notna().any()), _adds_noise(table)]
    blocks = display.by_task(table, lambda row: _cells(row, shown, notes))
    remarks = [
        "Noise and ε come from calibrations, without training. ε printed: in the paper. Difference: our evaluation of "
        "the paper’s formula minus the printed value.",
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    lead = (name for name, holds in zip(names, shown, strict=True) if holds)
    return Table(title, ["Method", *lead, *HEADS], blocks, notes.texts, remarks)


def _adds_noise(table: pd.DataFrame) -> bool:
    """Return whether a noise is known that is no value of the sweep, which has a column already."""
    known = table[table["noise_std_over_clip"].notna()]
    return bool((pd.to_numeric(known["value"], errors="coerce") != known["noise_std_over_clip"]).any())


def _cells(row: dict[str, Any], shown: list[bool], notes: Footnotes) -> list[Text]:
    """Return the cells of a row; `shown` says whether value, target and noise have columns."""
    noise = row["noise_std_over_clip"]
    lead = [
        Text(row["value"]),
        display.target_cell(row),
        Text(DASH if math.isnan(noise) else formats.significant(noise, 4)),
    ]
    head = [Text(row["label"]), *(cell for cell, holds in zip(lead, shown, strict=True) if holds)]
    printed = Text(row["published_text"] or display.NOT_IN_PAPER)
    if row["status"] != "ok":
        return [*head, Text(DASH), printed, display.failure(row, notes), *[Text(DASH)] * 4]
    return [
        *head,
        Text(formats.count(row["steps"])),
        printed,
        display.epsilon_cell(row, "published", notes),
        Text(formats.difference(row["difference"], 3)),
        display.epsilon_cell(row, "rigorous", notes),
        *display.protection_cells(row),
    ]
