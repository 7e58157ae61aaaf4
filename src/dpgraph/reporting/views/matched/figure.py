"""Figures of a metric against test accuracy: a panel per task, a curve per method."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import described, of_entry
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import Results

ACCURACY = "accuracy/test"


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png; runs of a method are joined in the order of their accuracy."""
    points = matched_points(plan, artefact_id, results)
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(plan.artefacts[artefact_id].metric)
    tasks = plan.tasks_of(artefact_id)
    with canvas.house_style(artefact_id):
        handles: dict[str, Artist] = {
            words.label(str(rows["label"].iloc[0])): marks.sample(looks[str(method)])
            for method, rows in points.groupby("method", sort=False)
        }
        handles |= marks.reference_handle(points, shown)
        figure, grid, width = canvas.panels([1] * len(tasks), handles)
        for (axes,), (task_id, (task, _)) in zip(grid, tasks.items(), strict=True):
            rows = points[(points["task"] == task_id) & points["mean"].notna() & points["accuracy_mean"].notna()]
            canvas.panel_title(axes, task.label, plan.suite.demonstration, width)
            axes.set_xlabel("test accuracy (%)")
            canvas.y_label(axes, shown.label)
            if rows.empty:
                canvas.no_results(axes)
                continue
            marks.reference_line(axes, rows, shown)
            for method, part in rows.groupby("method", sort=False):
                part = part.sort_values("accuracy_mean")
                marks.curve(axes, part["accuracy_mean"].to_numpy(float), part, looks[str(method)], shown)
        files = canvas.save_all(figure, stem)
    return Drawn(files, points, words.beside(points, *splits.fixed(plan, artefact_id)))


def matched_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry: mean, std and 95 % interval of the artefact's metric, and of test accuracy (`accuracy_`)."""
    known, metric, rows = Results.of(results), plan.artefacts[artefact_id].metric, []
    for entry in plan.entries_of(artefact_id):
        outcome, accuracy = known.outcome(entry, metric), known.outcome(entry, ACCURACY).summary()
        row = described(entry, outcome) | {"value": of_entry(entry, "value")["value"], "source": "ours"}
        row |= outcome.summary().columns | {f"accuracy_{name}": value for name, value in accuracy.columns.items()}
        rows.append(row | known.reference(entry, metric))
    return pd.DataFrame(rows)
