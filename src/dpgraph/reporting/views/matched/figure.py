"""Figures of a metric against test accuracy: a panel per task, a curve per method."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.matched.rows import matched_points


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png; runs of a method are joined in the order of their accuracy."""
    points = matched_points(plan, artefact_id, results)
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(plan.artefacts[artefact_id].metric)
    tasks, wide = plan.tasks_of(artefact_id), canvas.ACROSS
    with canvas.house_style(artefact_id):
        handles = {}
        for method, rows in points.groupby("method", sort=False):
            text, good = words.label(str(rows["label"].iloc[0])), rows[rows["status"] == "ok"]
            if rows["variant"].iloc[0] != "none" and not good.empty:
                text += "\n" + words.label(words.budget(good))
            handles[text] = marks.sample(looks[str(method)])
        handles |= marks.reference_handle(points, shown)
        lines = words.below(points, wide, " ".join(splits.fixed(plan, artefact_id)))
        figure, grid = canvas.panels(len(tasks), canvas.Legend(handles, lines, wide))
        for (axes,), (task_id, (task, _)) in zip(grid, tasks.items(), strict=True):
            rows = points[(points["task"] == task_id) & points["mean"].notna() & points["accuracy_mean"].notna()]
            canvas.panel_title(axes, task.label, plan.suite.demonstration)
            axes.set_xlabel("test accuracy (%)")
            axes.set_ylabel(shown.label)
            if rows.empty:
                canvas.no_results(axes)
                continue
            marks.reference_line(axes, rows)
            for method, part in rows.groupby("method", sort=False):
                part = part.sort_values("accuracy_mean")
                marks.curve(axes, part["accuracy_mean"].to_numpy(float), part, looks[str(method)], shown)
        return canvas.save_all(figure, stem), points
