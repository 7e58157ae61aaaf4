"""Panels by task and target epsilon: series within a panel differ by their method only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing import canvas
from dpgraph.reporting.formats import significant

MOST = 4  # panels next to each other
NARROW = 1.75  # inches of height of more than two next to each other


@dataclass(frozen=True)
class Facet:
    """A panel: the rows of one task at one target epsilon."""

    task: str
    title: str
    rows: pd.DataFrame


def facets(plan: Plan, artefact_id: str, points: pd.DataFrame) -> tuple[list[Facet], list[str]]:
    """Split rows (columns task, epsilon_target, mean) into panels; also return the titles of empty ones.

    Rows without a target (no privacy) are in every panel of their task. With one target, titles name the task alone.
    """
    made, empty = [], []
    for task_id, (task, _) in plan.tasks_of(artefact_id).items():
        rows = points[points["task"] == task_id]
        targets = sorted(rows["epsilon_target"].dropna().unique())
        for target in targets or [None]:
            of_target = rows[rows["epsilon_target"].isna() | (rows["epsilon_target"] == target)]
            title = task.label + (f", ε\xa0=\xa0{significant(float(target))}" if target and len(targets) > 1 else "")
            own = of_target if target is None else of_target[of_target["epsilon_target"] == target]
            if own["mean"].notna().any() or (of_target["mean"].notna().any() and len(targets) < 2):
                made.append(Facet(task_id, title, of_target))
            else:
                empty.append(title)
    return made, empty


def laid_out(
    chosen: Sequence[Facet], handles: Mapping[str, Artist], demonstration: bool, x: str, y: str
) -> tuple[Figure, list[Axes]]:
    """Return a figure with labelled axes for all panels; those of a task are next to each other."""
    most = max((len(list(own)) for _, own in groupby(chosen, lambda one: one.task)), default=1)
    across = min(most, MOST) if most > 1 else canvas.ACROSS
    height = NARROW if across > canvas.ACROSS else canvas.PANEL[1]
    return canvas.panelled([one.title for one in chosen], handles, demonstration, x, y, across, height)[:2]


def share_y(chosen: Sequence[Facet], grid: Sequence[Axes]) -> None:
    """Give the panels of a task that are next to each other one y axis; call it once all is drawn."""
    rows: dict[tuple[str, int], list[Axes]] = {}
    for one, axes in zip(chosen, grid):
        spec = axes.get_subplotspec()
        if spec is not None:
            rows.setdefault((one.task, spec.get_topmost_subplotspec().rowspan.start), []).append(axes)
    for together in rows.values():
        canvas.share_y(together)
