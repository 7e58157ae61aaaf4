"""Noise and epsilons without training: what the calibrations of an artefact's cells state, next to the paper's."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import protection
from dpgraph.reporting.aggregate import COLUMNS as RESULT_COLUMNS
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.paper_values import paper_value
from dpgraph.reporting.results import Results

COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "optimizer", "variant", "value",
           "epsilon_target")  # fmt: skip


CALIBRATED = ("noise_std_over_clip", "steps", "delta", *protection.COLUMNS, "eps_published", "eps_published_reason",
              "eps_rigorous", "eps_rigorous_reason", "status", "reason", "eps_claimed")  # fmt: skip


def accounting_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row per entry: its calibration's noise, steps and both epsilons, and the epsilon that the paper prints.

    `noise_std_over_clip` is noise std / clip norm per coordinate; `difference` our published epsilon minus the printed
    one. An entry without privacy, or whose calibration is missing, is marked as such.
    """
    known = Results.of(results)
    return pd.DataFrame([_row(plan, entry, known) for entry in plan.entries_of(artefact_id)])


def _row(plan: Plan, entry: Entry, known: Results) -> dict[str, Any]:
    printed = paper_value(plan.experiments[entry.paper], entry, "epsilon")
    row = {
        **of_entry(entry, *COLUMNS),
        **_calibrated(entry, known),
        "published_epsilon": math.nan if printed is None else printed.value,
        "published_text": "" if printed is None else printed.text,
    }
    row["difference"] = row["eps_published"] - row["published_epsilon"]
    return row | {"calibration": entry.cell.calibration_key or ""}


def _calibrated(entry: Entry, known: Results) -> dict[str, Any]:
    rows = known.calibration(entry)
    if len(rows) and rows["status"].iloc[0] == "ok":
        return {name: rows[name].iloc[0] for name in CALIBRATED}
    if entry.cell.calibration_key is None:
        reason = "no privacy"
    else:
        reason = str(rows["reason"].iloc[0]) if len(rows) else "not calibrated yet"
    missing = {name: math.nan if RESULT_COLUMNS[name] != "string" else "" for name in CALIBRATED}
    return missing | {"status": "not run", "reason": reason}
