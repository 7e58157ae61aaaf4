"""Distance of each class, with and without privacy (Zhang 2021, Figures 4.6 and 4.11)."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.inversion.rows import MEAN, inversion_rows

MOST_CLASSES = 20  # on an axis
ORDINALS = ("largest", "second", "third", "fourth", "fifth", "sixth")


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw: for each task a panel for the largest target epsilon of each method, one
    for the second largest, and so on; methods without a target are in all. Bands: 95 % intervals."""
    points = inversion_rows(plan, artefact_id, results).rename(columns={"distance": "mean"}).assign(source="ours")
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(plan.artefacts[artefact_id].metric)
    target = points.groupby(["task", "method"])["epsilon_target"]
    points = points.assign(place=target.rank(method="dense", ascending=False))
    tasks = plan.tasks_of(artefact_id)
    panels = [(task, place) for task in tasks for place in _places(points[points["task"] == task])]
    handles = marks.method_handles(points, looks, line=False)
    titles = [f"{tasks[task][0].label}, {_title(place)}" for task, place in panels]
    figure, grid, width = canvas.panelled(titles, handles, plan.suite.demonstration, "class", shown.label)
    for axes, (task, place) in zip(grid, panels, strict=True):
        rows = points[(points["task"] == task) & (points["class_id"] != MEAN) & points["mean"].notna()]
        rows = rows[rows["place"].isna() | (rows["place"] == place)]
        if rows.empty:
            canvas.no_results(axes)
        classes = min(rows["class_id"].nunique(), MOST_CLASSES)
        methods = list(dict.fromkeys(rows["method"]))
        for method, part in rows.groupby("method", sort=False):
            part = part[part["class_id"] < MOST_CLASSES]
            side = marks.Slot(methods.index(method), len(methods), width / (classes + 2))
            x = part["class_id"].to_numpy(float)
            marks.curve(axes, x, part, looks[str(method)], shown, side, ordered=False)
    means = points[points["class_id"] == MEAN]
    return Drawn(figure, points.drop(columns="place"), words.beside(means, *splits.fixed(plan, artefact_id)))


def _places(points: pd.DataFrame) -> list[float]:
    return sorted(points["place"].dropna().unique()) or [1.0]


def _title(place: float) -> str:
    return f"{ORDINALS[min(int(place), len(ORDINALS)) - 1]} ε of each method"
