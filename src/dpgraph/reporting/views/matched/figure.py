"""Figures of a metric against test accuracy: a panel per task, a curve per method."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import described, of_entry
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import Results

ACCURACY = "accuracy/test"


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw; runs of a method are joined in the order of their accuracy."""
    points = matched_points(plan, artefact_id, results)
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(plan.artefacts[artefact_id].metric)
    tasks = plan.tasks_of(artefact_id)
    handles = {**marks.method_handles(points, looks), **marks.reference_handle(points, shown)}
    titles = [task.label for task, _ in tasks.values()]
    figure, grid, _ = canvas.panelled(titles, handles, plan.suite.demonstration, "test accuracy (%)", shown.label)
    for axes, task_id in zip(grid, tasks, strict=True):
        rows = points[(points["task"] == task_id) & points["mean"].notna() & points["accuracy_mean"].notna()]
        if rows.empty:
            canvas.no_results(axes)
            continue
        marks.reference_line(axes, rows, shown)
        for method, part in rows.groupby("method", sort=False):
            part = part.sort_values("accuracy_mean")
            marks.curve(axes, part["accuracy_mean"].to_numpy(float), part, looks[str(method)], shown)
    return Drawn(figure, points, words.beside(points, *splits.fixed(plan, artefact_id)))


def matched_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry: mean, std and 95 % interval of the artefact's metric, and of test accuracy (`accuracy_`)."""
    known, metric, rows = Results.of(results), plan.artefacts[artefact_id].metric, []
    for entry in plan.entries_of(artefact_id):
        outcome, accuracy = known.outcome(entry, metric), known.outcome(entry, ACCURACY).summary()
        row = described(entry, outcome) | {"value": of_entry(entry, "value")["value"], "source": "ours"}
        row |= outcome.summary().columns | {f"accuracy_{name}": value for name, value in accuracy.columns.items()}
        rows.append(row | known.reference(entry, metric))
    return pd.DataFrame(rows)
