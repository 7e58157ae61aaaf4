"""What a privacy-utility figure shows: points of ours and of the paper, accuracy against epsilon."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.experiments.plan import Entry, Plan
from dpgraph.reporting.paper_values import epsilon_limit, paper_values
from dpgraph.reporting.results import MISSING, Results

POINT_COLUMNS = [
    "paper",
    "artefact",
    "task",
    "task_label",
    "method",
    "label",
    "source",
    "epsilon_target",
    "epsilon",
    "epsilon_kind",
    "mean",
    "std",
    "ci_low",
    "ci_high",
    "n",
    "eps_published",
    "eps_rigorous",
    "eps_rigorous_reason",
    "delta",
    "status",
    "reason",
]


def privacy_utility_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """What the figure shows: one row per entry (source ours) and one per printed number beside it (source paper).

    `epsilon` is where the point stands on the x axis, `epsilon_kind` whose it is: the rigorous one, the published one
    (the paper's own mechanism), or none without privacy. Accuracies are in percent. A number that the paper prints
    once stands once, at the first method of the artefact that it belongs to.
    """
    found = None if results is None else Results(results)
    rows = []
    for entry in plan.entries_of(artefact_id):
        rows.append(_own_point(plan, entry, found))
        rows += _paper_points(plan, entry)
    points = pd.DataFrame(rows, columns=POINT_COLUMNS)
    printed = points["source"] != "ours"
    repeated = points.duplicated(["task", "source", "epsilon", "mean", "std"]) & printed
    return points[~repeated].reset_index(drop=True)


def _base(entry: Entry) -> dict[str, Any]:
    return {
        "paper": entry.paper,
        "artefact": entry.artefact.split("/")[1],
        "task": entry.task_id,
        "task_label": entry.suite_task.label,
        "method": entry.method_id,
        "label": entry.method.label,
    }


def _own_point(plan: Plan, entry: Entry, results: Results | None) -> dict[str, Any]:
    metric = plan.artefacts[entry.artefact].metric
    outcome = MISSING if results is None else results.outcome(entry, metric)
    summary = outcome.summary()
    variant = "none" if entry.cell.privacy is None else entry.cell.privacy.variant
    return {
        **_base(entry),
        "source": "ours",
        "epsilon_target": math.nan if entry.epsilon is None else entry.epsilon,
        "epsilon": {"none": math.inf, "published": outcome.eps_published}.get(variant, outcome.eps_rigorous),
        "epsilon_kind": variant,
        "mean": summary.mean,
        "std": summary.std,
        "ci_low": summary.low,
        "ci_high": summary.high,
        "n": summary.n,
        "eps_published": outcome.eps_published,
        "eps_rigorous": outcome.eps_rigorous,
        "eps_rigorous_reason": outcome.eps_rigorous_reason,
        "delta": outcome.delta,
        "status": outcome.status,
        "reason": outcome.reason,
    }


def _paper_points(plan: Plan, entry: Entry) -> list[dict[str, Any]]:
    printed = paper_values(plan.experiments[entry.paper], entry, plan.artefacts[entry.artefact].metric)
    return [
        {
            **_base(entry),
            "source": f"paper's {value.table.replace('table', 'table ')}",
            "epsilon": epsilon_limit(value.epsilon) if value.epsilon else math.nan,
            "epsilon_kind": "none" if entry.cell.privacy is None else "published",
            "mean": value.value,
            "std": value.std if value.std is not None else math.nan,
            "eps_published": epsilon_limit(value.epsilon) if value.epsilon else math.nan,
            "status": "printed",
            "reason": "",
        }
        for value in printed
    ]
