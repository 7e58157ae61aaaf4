"""Remarks on an artefact's tasks: splits that seeds share or not, constructed data, data that are not available."""

from collections.abc import Iterable

import pandas as pd

from dpgraph.planning.plan import Plan

OWN = ("random-", "per-class-")
FIXED = {
    "public": "public: the data set’s own",
    "train-rest": "train-rest: the data set’s own validation and test nodes, all others train",
    "ratio": "by clusters",
}
WITHOUT_SEEDS = ("statistics", "accounting", "bounds")  # views without results of a run
CROSSED = "variance"  # a view that says itself what its seeds are


def remarks(plan: Plan, artefact_id: str) -> list[str]:
    """Return the remarks below a table: tasks with a split for each seed, and those without, as `fixed` says it."""
    if plan.artefacts[artefact_id].view in (*WITHOUT_SEEDS, CROSSED):
        return []
    own = [suite.label for suite, task in plan.tasks_of(artefact_id).values() if task.split.startswith(OWN)]
    return [
        *([f"Each seed has a random split of its own: {', '.join(own)}."] if own else []),
        *fixed(plan, artefact_id),
    ]


def fixed(plan: Plan, artefact_id: str) -> list[str]:
    """Return remarks on tasks whose seeds share one split, which no interval covers, and `constructed`."""
    if plan.artefacts[artefact_id].view in WITHOUT_SEEDS:
        return []
    by_kind: dict[str, list[str]] = {}
    for suite, task in plan.tasks_of(artefact_id).values():
        if not task.split.startswith(OWN):
            kind = FIXED["ratio" if task.split.startswith("ratio-") else task.split]
            by_kind.setdefault(kind, []).append(suite.label)
    if not by_kind:
        return constructed(plan, artefact_id)
    named = "; ".join(f"{', '.join(labels)} ({kind})" for kind, labels in by_kind.items())
    shared = f"One fixed split for all seeds, so intervals and ± hold for this split only: {named}."
    return [shared, *constructed(plan, artefact_id)]


def constructed(plan: Plan, artefact_id: str) -> list[str]:
    """Return a remark on tasks whose data were made for a purpose, which decides how methods compare."""
    why = {suite.label: suite.constructed for suite, _ in plan.tasks_of(artefact_id).values() if suite.constructed}
    named = "; ".join(f"{label} ({text})" for label, text in why.items())
    return [f"No evidence for or against a claim of a paper: {named}."] if named else []


REASON = "data not available"


def lacks_data(table: pd.DataFrame) -> pd.Series:
    """Return a mask of our rows without a value because their data set is not there (column reason)."""
    if "reason" not in table:
        return pd.Series(False, index=table.index)
    return table["reason"].fillna("").astype(str).str.startswith(REASON)


def how_to_run(plan: Plan, artefact_id: str, table: pd.DataFrame) -> list[str]:
    """Return a remark with the command that runs cells whose data were unavailable; empty without such cells."""
    lacking = lacks_data(table)
    if not lacking.any() or "task_label" not in table:
        return []
    labels = dict.fromkeys(table.loc[lacking, "task_label"].astype(str))
    command = with_files([artefact_id], plan.suite.name)
    return [f"Not run because the data cannot be had here: {', '.join(labels)}. {command}"]


def with_files(artefacts: Iterable[str], suite: str) -> str:
    """Return the command that runs artefacts where the data are."""
    command = f"dpgraph run {' '.join(artefacts)} --suite {suite} --set 'mirrors=[FOLDER]'"
    return f"With their files in FOLDER (docs/reference/datasets.md): {command}"
