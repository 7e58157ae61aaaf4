"""Accuracy tables in long form: one row per entry of an artefact, ours next to the paper's."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.chance import with_chance
from dpgraph.reporting.paper_values import paper_value
from dpgraph.reporting.results import Results

COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "dataset", "setting", "optimizer", "variant",
           "value", "epsilon_target")  # fmt: skip


def accuracy_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry, in the artefact's order of methods, then epsilon, then task.

    Shares are in percent, mean and sample standard deviation (ddof = 1) over the n seeds that ended well;
    `difference` is ours minus the paper's, in points. The paper's own runs have no rigorous epsilon: what they would
    need (steps, delta, thresholds) is not printed. Without results every row says not run.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    rows = [_accuracy_row(plan, entry, known) for entry in entries]
    table = pd.DataFrame(rows, columns=list(rows[0]) if rows else None)
    return with_chance(table, entries, known, artefact.metric) if artefact.chance else table


def _accuracy_row(plan: Plan, entry: Entry, results: Results) -> dict[str, Any]:
    artefact = plan.artefacts[entry.artefact]
    experiment = plan.experiments[entry.paper]
    outcome = results.outcome(entry, artefact.metric)
    summary = outcome.summary()
    printed = paper_value(experiment, entry, artefact.metric)
    return {
        **of_entry(entry, *COLUMNS),
        **summary.columns,
        "n": summary.n,
        "n_planned": len(entry.cell.seeds),
        **outcome.privacy,
        "published_value": math.nan if printed is None else printed.value,
        "published_std": math.nan if printed is None or printed.std is None else printed.std,
        "published_text": "" if printed is None else printed.text,
        "published_epsilon": "" if printed is None else printed.epsilon,
        "published_epsilon_rigorous": "" if printed is None else "inf" if entry.cell.privacy is None else "none",
        "difference": math.nan if printed is None else summary.mean - printed.value,
        "status": outcome.status,
        "reason": outcome.reason,
        "cell": entry.cell.slug,
    } | results.reference(entry, artefact.metric)
