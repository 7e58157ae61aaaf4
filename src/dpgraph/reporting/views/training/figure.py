"""Figures of a metric along training: a panel per task, a curve per method and target epsilon."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_lines
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.training.rows import training_points


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png; lines have 95 % intervals."""
    points = training_points(plan, artefact_id, results)
    looks, shown = looks_of_lines(plan.entries_of(artefact_id)), quantity(plan.artefacts[artefact_id].metric)
    drawn = points.assign(target=points["epsilon_target"].fillna(-1.0))
    tasks, wide = plan.tasks_of(artefact_id), canvas.ACROSS
    with canvas.house_style(artefact_id):
        handles = {}
        for (method, target), rows in drawn.groupby(["method", "target"], sort=False):
            text = words.run_label(str(rows["label"].iloc[0]), None if target < 0 else float(target))
            handles[text] = marks.sample(looks[str(method), float(target)])
        lines = words.below(points, wide, " ".join(splits.fixed(plan, artefact_id)))
        figure, grid = canvas.panels(len(tasks), canvas.Legend(handles, lines, wide))
        for (axes,), (task_id, (task, _)) in zip(grid, tasks.items()):
            rows = drawn[(drawn["task"] == task_id) & drawn["mean"].notna()]
            canvas.panel_title(axes, task.label, plan.suite.demonstration)
            axes.set_xlabel("steps")
            axes.set_ylabel(shown.label)
            if rows.empty:
                canvas.no_results(axes)
            for (method, target), part in rows.groupby(["method", "target"], sort=False):
                x = part["step"].to_numpy(float)
                marks.curve(axes, x, part, looks[str(method), float(target)], shown)
        return canvas.save_all(figure, stem), points
