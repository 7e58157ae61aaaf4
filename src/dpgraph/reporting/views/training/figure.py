"""Figures of a metric along training: a panel per task and target epsilon, a curve per method."""

from __future__ import annotations

import math

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import own_point
from dpgraph.reporting.drawing import marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.facets import facets, laid_out, share_y
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import PRIVACY, EntryResult, Results

COLUMNS = [
    "paper", "artefact", "task", "task_label", "method", "label", "variant", "epsilon_target", "source", "step", "mean",
    "std", "ci_low", "ci_high", "n", *PRIVACY, "status", "reason",
]  # fmt: skip


def training_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry and evaluation, `step` ascending; one without a step for an entry that has no value."""
    known, metric, rows = Results.of(results), plan.artefacts[artefact_id].metric, []
    for entry in plan.entries_of(artefact_id):
        reached: list[tuple[float, EntryResult]] = [*known.along_training(entry, metric)]
        rows += [own_point(entry, *one) for one in reached or [(math.nan, known.outcome(entry, metric))]]
    return pd.DataFrame(rows, columns=COLUMNS)


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw; lines have 95 % intervals."""
    points = training_points(plan, artefact_id, results)
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(plan.artefacts[artefact_id].metric)
    chosen, empty = facets(plan, artefact_id, points)
    figure, grid = laid_out(chosen, marks.method_handles(points, looks), plan.suite.demonstration, "steps", shown.label)
    for axes, one in zip(grid, chosen):
        for method, part in one.rows[one.rows["mean"].notna()].groupby("method", sort=False):
            marks.curve(axes, part["step"].to_numpy(float), part, looks[str(method)], shown)
    share_y(chosen, grid)
    about = [*splits.fixed(plan, artefact_id), *words.not_drawn(empty)]
    return Drawn(figure, points, words.beside(points, *about))
