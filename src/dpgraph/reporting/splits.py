"""Remarks on an artefact's tasks: splits that seeds share or not, constructed data, and what was not run."""

import pandas as pd

from dpgraph.planning.cost import hours_in_words
from dpgraph.planning.plan import Plan
from dpgraph.reporting.aggregate import CALIBRATED
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
    named = "; ".join(f"{label}, where {text}" for label, text in why.items())
    return [f"No evidence for or against a claim of a paper: {named}."] if named else []


REASON = "data not available"
FILES = "With their files in FOLDER (docs/reference/datasets.md): "
NOT_KEPT = "not kept in these rows"  # the statistics of a graph, on which something may have run
TASK = ("dataset", "setting", "split", "features")


def lacks_data(rows: pd.DataFrame) -> pd.Series:
    """Return a mask of the rows whose data, or an encoder of them, are not there (column reason)."""
    return rows["reason"].fillna("").astype(str).str.contains(REASON, regex=False)


def left_out(table: pd.DataFrame) -> list[str]:
    """Return the reasons for which a suite runs nothing of a table."""
    reasons = table.loc[~lacks_data(table), "reason"].unique()
    return [f"Not run: {text}." for text in reasons if text not in ("", NOT_KEPT)]


def how_to_run(plan: Plan, artefact_id: str, rows: pd.DataFrame | None) -> list[str]:
    """Return remarks on what was not run, with the command that runs it and the hours of its training.

    The first is on what lacks its data, the second on cells, calibrations and graphs without a record.

    Args:
        rows: What the artefact is made from; None: nothing is known, so there are no remarks.
    """
    view, command = plan.artefacts[artefact_id].view, f"dpgraph run {artefact_id} --suite {plan.suite.name}"
    if rows is None or not inputs_of(view).reads:
        return []
    if view == "statistics":
        rows, tasks = rows[rows["cell"] == ""], plan.tasks_of(artefact_id).values()
        places = pd.Series(map("/".join, zip(*(rows[name] for name in TASK), strict=True)), rows.index, str)
        labels = {"/".join(getattr(task, name) for name in TASK): suite.label for suite, task in tasks}
    else:
        accounts, entries = view == "accounting", plan.entries_of(artefact_id)
        rows = rows[rows["metric"] == CALIBRATED] if accounts else rows
        places, entries = rows["cell"], [one for one in entries if not accounts or one.cell.calibration_key is not None]
        labels = {one.cell.slug: one.suite_task.label for one in entries if one.not_run is None}
    without, known = set(places[lacks_data(rows)]), set(places)
    absent = "Not run because the data cannot be had here", f"{FILES}{command} --set 'mirrors=[FOLDER]'"
    unknown = NOT_KEPT.capitalize() if view == "statistics" else "Not run", command
    groups = {absent: [at for at in labels if at in without], unknown: [at for at in labels if at not in known]}
    return [
        f"{what}: {'; '.join(dict.fromkeys(labels[at] for at in found))}. {told}"
        + (f" ({hours_in_words(plan, found)})" if view not in WITHOUT_SEEDS else "")
        for (what, told), found in groups.items()
        if found
    ]
