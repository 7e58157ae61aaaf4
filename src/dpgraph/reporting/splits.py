"""What must be said of an artefact's tasks: splits that seeds share or have of their own, data made for a purpose."""

from __future__ import annotations

from dpgraph.planning.plan import Plan

OWN = ("random-", "per-class-")
FIXED = {
    "public": "public: the data set’s own",
    "train-rest": "train-rest: the data set’s own validation and test nodes, all others train",
    "ratio": "by clusters",
}
WITHOUT_SEEDS = ("statistics", "accounting", "bounds")  # views that show nothing of a run
CROSSED = "variance"  # a view that says itself what its seeds are


def remarks(plan: Plan, artefact_id: str) -> list[str]:
    """Below a table: which tasks have a split for each seed; and those that do not, as `fixed` says it."""
    if plan.artefacts[artefact_id].view in (*WITHOUT_SEEDS, CROSSED):
        return []
    own = [suite.label for suite, task in plan.tasks_of(artefact_id).values() if task.split.startswith(OWN)]
    return [
        *([f"Each seed has a random split of its own: {', '.join(own)}."] if own else []),
        *fixed(plan, artefact_id),
    ]


def fixed(plan: Plan, artefact_id: str) -> list[str]:
    """The tasks whose seeds share one split, which no interval and no standard deviation covers, and `constructed`."""
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
    """The tasks on which methods compare as they do because of how the data were made."""
    why = {suite.label: suite.constructed for suite, _ in plan.tasks_of(artefact_id).values() if suite.constructed}
    named = "; ".join(f"{label} ({text})" for label, text in why.items())
    return [f"No evidence for or against a claim of a paper: {named}."] if named else []
