"""What a privacy-utility figure shows: points of ours and of the paper, accuracy against both epsilons."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.config.experiment import ReleaseAxis
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import of_entry, own_point
from dpgraph.reporting.chance import chance_columns
from dpgraph.reporting.formats import printed_place
from dpgraph.reporting.paper_values import epsilon_limit, paper_values
from dpgraph.reporting.results import PRIVACY, Results

RELEASE = "epsilon_release"  # column: epsilon_pr, where the artefact has an axis of it
ENTRY_COLUMNS = ("paper", "artefact", "task", "task_label", "method", "label", "value", "variant", "epsilon_target")
POINT_COLUMNS = [
    *ENTRY_COLUMNS[:-1], "source", "epsilon_target", "step", "mean", "std", "ci_low", "ci_high", "n", *PRIVACY,
    "status", "reason",
]  # fmt: skip


def privacy_utility_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """What the figure shows: one row per entry (source ours) and one per printed number next to it (source paper).

    An artefact along training has a row per evaluation of a private entry, at the epsilons of the steps so far; `step`
    is missing where there is one row per entry. Both epsilons are inf without privacy and missing where nothing is
    guaranteed. Shares are in percent. A number that the paper prints several times appears once, at the first
    method of the artefact that it belongs to. With a release axis there is a column `epsilon_release`, with chance the
    columns of `reporting.chance`.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    tested = chance_columns(entries, known, artefact.metric) if artefact.chance else [{}] * len(entries)
    rows = []
    for entry, chance in zip(entries, tested):
        own = [row | chance for row in _own_points(plan, entry, known)]
        rows += [*own, *_paper_points(plan, entry, own[0])]
    more = [name for name in ("reference", "p_chance", "above_chance") if any(name in row for row in rows)]
    points = pd.DataFrame(rows, columns=[*POINT_COLUMNS, *more])
    if artefact.release_axis is not None:
        points[RELEASE] = released(points, artefact.release_axis)
    repeated = points[points["source"] != "ours"].duplicated(["task", "value", "eps_published", "mean", "std"])
    return points.drop(index=repeated[repeated].index).reset_index(drop=True)


def released(points: pd.DataFrame, axis: ReleaseAxis) -> pd.Series:
    """epsilon_pr of each point, in units of the axis: of ours from its target; nan for printed numbers."""
    epsilon = points["epsilon_target"].where(points["source"] == "ours")
    return (axis.factor * epsilon - axis.training_epsilon).where(points["variant"] != "none", math.inf)


def _own_points(plan: Plan, entry: Entry, results: Results) -> list[dict[str, Any]]:
    artefact = plan.artefacts[entry.artefact]
    reference = results.reference(entry, artefact.metric)
    if artefact.along_training and entry.cell.privacy is not None:
        reached = results.along_training(entry, artefact.metric)
        if reached:
            return [own_point(entry, step, outcome) | reference for step, outcome in reached]
    return [own_point(entry, math.nan, results.outcome(entry, artefact.metric)) | reference]


def _paper_points(plan: Plan, entry: Entry, own: dict[str, Any]) -> list[dict[str, Any]]:
    """Printed epsilons have the relation and scope that the paper claims, as ours by its formula (`own`)."""
    printed = paper_values(plan.experiments[entry.paper], entry, plan.artefacts[entry.artefact].metric)
    private = entry.cell.privacy is not None
    return [
        {
            **of_entry(entry, *ENTRY_COLUMNS),
            "variant": "published" if private else "none",
            "source": f"paper's {printed_place(value.table)}",
            "epsilon_target": math.nan,
            "mean": value.value,
            "std": value.std if value.std is not None else math.nan,
            "eps_published": _printed_epsilon(value.epsilon, entry),
            "eps_rigorous": math.nan if private else math.inf,
            **{name: own[name] for name in ("relation_published", "scope_published")},
            **dict.fromkeys(("relation_rigorous", "scope_rigorous"), "none"),
            **dict.fromkeys(("published_unmet", "uncovered"), ""),
            "status": "printed",
            "reason": "",
        }
        for value in printed
    ]


def _printed_epsilon(text: str, entry: Entry) -> float:
    """A number that the paper prints for all epsilons is repeated at each of ours."""
    if text == "all":
        return math.nan if entry.target_epsilon is None else entry.target_epsilon
    return epsilon_limit(text) if text else math.nan
