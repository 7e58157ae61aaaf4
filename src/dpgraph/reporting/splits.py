"""Remarks on an artefact's tasks: splits that seeds share or not, constructed data, and what was not run."""

from collections.abc import Sequence

import pandas as pd

from dpgraph.planning.cost import hours_in_words
from dpgraph.planning.plan import Plan
from dpgraph.reporting.views.registry import inputs_of

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
FILES = "With their files in FOLDER (docs/reference/datasets.md): "


def lacks_data(rows: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows whose data, or an encoder of them, are not there (column reason)."""
    return rows["reason"].fillna("").astype(str).str.contains(REASON, regex=False)


def how_to_run(plan: Plan, artefact_id: str, rows: pd.DataFrame | None) -> list[str]:
    """Return remarks on cells that were not run, with the command that runs them and its hours.

    The first is on cells whose data are not there, the second on cells without a record.

    Args:
        rows: What the artefact is made from; None: nothing is known, so there are no remarks.
    """
    view = plan.artefacts[artefact_id].view
    if rows is None or not inputs_of(view).reads:
        return []
    lacking, command = rows[lacks_data(rows)], f"dpgraph run {artefact_id} --suite {plan.suite.name}"
    absent = "Not run because the data cannot be had here", f"{FILES}{command} --set 'mirrors=[FOLDER]'"
    if view in WITHOUT_SEEDS:
        names, tasks = set(lacking["dataset"]), plan.tasks_of(artefact_id).values()
        return _told(*absent, [suite.label for suite, task in tasks if task.dataset in names])
    labels = {one.cell.slug: one.suite_task.label for one in plan.entries_of(artefact_id) if one.not_run is None}
    without, known = set(lacking["cell"]), set(rows["cell"])
    groups = {
        absent: [slug for slug in labels if slug in without],
        ("Not run", command): [slug for slug in labels if slug not in known],
    }
    return [
        line
        for texts, slugs in groups.items()
        if slugs
        for line in _told(*texts, [labels[slug] for slug in slugs], f" ({hours_in_words(plan, slugs)})")
    ]


def _told(what: str, command: str, labels: Sequence[str], hours: str = "") -> list[str]:
    return [f"{what}: {', '.join(dict.fromkeys(labels))}. {command}{hours}"] * bool(labels)
