"""Figures of a metric along training: a panel per task and target epsilon, a curve per method."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.facets import facets, laid_out, share_y
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.training.rows import training_points


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png; lines have 95 % intervals."""
    points = training_points(plan, artefact_id, results)
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(plan.artefacts[artefact_id].metric)
    chosen, empty = facets(plan, artefact_id, points)
    with canvas.house_style(artefact_id):
        handles = {
            words.label(str(rows["label"].iloc[0])): marks.sample(looks[str(method)])
            for method, rows in points.groupby("method", sort=False)
        }
        figure, grid = laid_out(chosen, handles, plan.suite.demonstration, "steps", shown.label)
        for axes, one in zip(grid, chosen):
            for method, part in one.rows[one.rows["mean"].notna()].groupby("method", sort=False):
                marks.curve(axes, part["step"].to_numpy(float), part, looks[str(method)], shown)
        share_y(chosen, grid)
        files = canvas.save_all(figure, stem)
    about = [*splits.fixed(plan, artefact_id), *words.not_drawn(empty)]
    return Drawn(files, points, words.beside(points, *about))
