"""A metric at each evaluation of a run, in long form."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.results import PRIVACY, EntryResult, Results

ENTRY_COLUMNS = ("paper", "artefact", "task", "task_label", "method", "label", "variant", "epsilon_target")
COLUMNS = [
    *ENTRY_COLUMNS, "source", "step", "mean", "std", "ci_low", "ci_high", "n", *PRIVACY, "status", "reason",
]  # fmt: skip


def training_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry and evaluation, `step` ascending; one without a step for an entry that has no value."""
    known, metric, rows = Results.of(results), plan.artefacts[artefact_id].metric, []
    for entry in plan.entries_of(artefact_id):
        reached: list[tuple[float, EntryResult]] = [*known.along_training(entry, metric)]
        rows += [_row(entry, *one) for one in reached or [(math.nan, known.outcome(entry, metric))]]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(entry: Entry, step: float, outcome: EntryResult) -> dict[str, Any]:
    summary = outcome.summary()
    return {
        **of_entry(entry, *ENTRY_COLUMNS),
        "source": "ours",
        "step": step,
        **summary.columns,
        "n": summary.n,
        **outcome.privacy,
        "status": outcome.status,
        "reason": outcome.reason,
    }
