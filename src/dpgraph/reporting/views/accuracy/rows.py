"""Accuracy tables in long form: one row per entry of an artefact, ours next to the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.chance import with_chance
from dpgraph.reporting.paper_values import paper_value
from dpgraph.reporting.quantities import is_utility
from dpgraph.reporting.ranking import PROVED, PUBLIC, Key, budget, kind, promise, ranked
from dpgraph.reporting.results import Results

COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "dataset", "setting", "optimizer", "variant",
           "value", "epsilon_target")  # fmt: skip


def accuracy_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry, in the artefact's order of methods, then epsilon, then task.

    Shares are in percent, mean and sample standard deviation (ddof = 1) over the n seeds that ended well;
    `difference` is ours minus the paper's, in points. The paper's own runs have no rigorous epsilon: what they would
    need (steps, delta, thresholds) is not printed. Without results every row says not run.

    `rank` is best or tied among rows of one task, kind, relation, scope, delta and budget, if more than one cell
    competes; rows whose epsilon is only claimed have none, nor has a metric that is no measure of utility.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    rows = [_accuracy_row(plan, entry, known) for entry in entries]
    table = pd.DataFrame(rows, columns=list(rows[0]) if rows else None)
    table["rank"] = _ranks(entries, known, artefact.metric)
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
        "fallback": outcome.fallback,
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


def _ranks(entries: Sequence[Entry], known: Results, metric: str) -> list[str]:
    """Of each entry; see `accuracy_table`."""
    outcomes = [known.outcome(entry, metric) for entry in entries]
    asked: dict[str, set[float]] = {}
    for entry in entries:
        asked.setdefault(entry.task_id, set()).update(() if entry.target_epsilon is None else (entry.target_epsilon,))
    keys: dict[int, Key] = {}
    rivals: dict[Key, set[str]] = {}
    for place, (entry, one) in enumerate(zip(entries, outcomes, strict=True)):
        if is_utility(metric) and one.ok and kind(one) in (PROVED, PUBLIC) and one.guarantee.rigorous.epsilon > 0:
            within = budget(one.guarantee.rigorous.epsilon, asked[entry.task_id])
            keys[place] = key = (entry.task_id, *promise(one), within)
            rivals.setdefault(key, set()).add(entry.cell.slug)
    places = [place for place, key in keys.items() if len(rivals[key]) > 1]
    marks = ranked(
        [keys[place] for place in places],
        [entries[place].cell.slug for place in places],
        [outcomes[place].values for place in places],
    )
    found = dict(zip(places, marks, strict=True))
    return [found.get(place, "") for place in range(len(entries))]
