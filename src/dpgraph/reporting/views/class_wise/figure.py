"""Class-wise figures: accuracy of each class, most frequent in training first, with and without privacy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import Look, looks_of_methods
from dpgraph.reporting.formats import significant
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.class_wise.rows import class_counts, class_wise_points

MARKED = 16  # classes; with more, marks would hide the lines
HEIGHT = 2.0  # inches


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png from `class_wise_points`: a panel per task, a line per method.

    A private method is shown at its largest target epsilon. Thin horizontal lines: accuracy over all test nodes.
    """
    points = class_wise_points(plan, artefact_id, results, class_counts(plan, artefact_id))
    shown = points[points["epsilon_target"].isna() | (points["epsilon_target"] == _largest(points))]
    tasks = plan.tasks_of(artefact_id)
    looks = looks_of_methods(plan.entries_of(artefact_id))
    wide = canvas.ACROSS
    with canvas.house_style(artefact_id):
        lines = words.below(shown.assign(source="ours"), wide, " ".join(splits.fixed(plan, artefact_id)))
        lines.append("Thin horizontal lines: accuracy over all test nodes.")
        figure, grid = canvas.panels(len(tasks), canvas.Legend(_handles(shown, looks), lines, wide), height=HEIGHT)
        for (axes,), (task_id, (task, _)) in zip(grid, tasks.items()):
            rows = shown[shown["task"] == task_id]
            canvas.panel_title(axes, task.label, plan.suite.demonstration)
            axes.set_xlabel("class by rank of frequency; below: its training nodes")
            axes.set_ylabel("test accuracy (%)")
            if rows["mean"].isna().all():
                canvas.no_results(axes)
            else:
                _panel(axes, rows, looks)
        return canvas.save_all(figure, stem), points


def _largest(points: pd.DataFrame) -> pd.Series:
    return points.groupby(["task", "method"])["epsilon_target"].transform("max")


def _handles(points: pd.DataFrame, looks: dict[str, Look]) -> dict[str, Line2D]:
    handles = {}
    marked = points["rank"].max() <= MARKED
    for method, rows in points.groupby("method", sort=False):
        good, text = rows[rows["status"] == "ok"], words.label(str(rows["label"].iloc[0]))
        if rows["variant"].iloc[0] != "none" and not good.empty:
            text += "\n" + words.label(words.budget(good))
        handles[text] = marks.sample(looks[str(method)], bool(marked))
    return handles


def _panel(axes: Axes, rows: pd.DataFrame, looks: dict[str, Look]) -> None:
    axes.set_ylim(-3, 103)
    classes = rows[rows["class_id"] >= 0]
    for method, part in classes.groupby("method", sort=False):
        style = looks[str(method)]
        marks.curve(
            axes,
            part["rank"].to_numpy(float),
            part,
            style,
            quantity("class_accuracy/test"),
            len(part) if len(part) <= MARKED else 0,
        )
    for row in rows[(rows["class_id"] < 0) & rows["mean"].notna()].itertuples():
        axes.axhline(row.mean, color=looks[str(row.method)].colour, linestyle=":", linewidth=0.8)
    _x_axis(axes, classes.drop_duplicates("rank").set_index("rank")["train_nodes"])


def _x_axis(axes: Axes, train_nodes: pd.Series) -> None:
    if train_nodes.empty:
        axes.set_xticks([], [])
        return
    last = len(train_nodes)
    axes.set_xlim(0.5 if last <= MARKED else 0, last + 0.5)
    ranks = sorted({int(rank) for rank in np.linspace(1, last, min(last, 6)).round()})
    axes.xaxis.set_major_locator(FixedLocator(ranks))
    axes.set_xticklabels([f"{rank}\n{_short(int(train_nodes[rank]))}" for rank in ranks])


def _short(nodes: int) -> str:
    return str(nodes) if nodes < 1000 else f"{significant(nodes / 1000, 2 if nodes < 1e5 else 3)}k"
