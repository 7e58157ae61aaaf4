"""Heat maps of true against predicted classes, one per run."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from dpgraph.planning.plan import Plan
from dpgraph.reporting import protection, splits
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.formats import significant
from dpgraph.reporting.views.confusion.rows import confusion_points, confusions

HEIGHTS = {1: 3.2, 2: 3.3, 3: 2.5}  # inches of a panel, by panels next to each other
WRITTEN = 10  # classes up to which shares are written into the cells
COLOURS = LinearSegmentedColormap.from_list("confusion", ["#FFFFFF", "#9CC7E3", "#0072B2", "#08294A"])
BAR = 0.45  # inches
LINE = 0.16  # inches of a title's line beyond the first


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw: a panel per entry, rows add up to 100 % of a class's test nodes."""
    points = confusion_points(confusions(plan, artefact_id, results))
    runs = [rows for _, rows in points.groupby(["task", "method", "epsilon_target"], sort=False, dropna=False)]
    shown = [rows for rows in runs if rows["share"].notna().any()]
    across = min(max(len(shown), 1), max(HEIGHTS))
    figure, grid, _ = canvas.panelled(
        list(map(_title, shown)), {}, plan.suite.demonstration, "predicted class", "true class", across, HEIGHTS[across]
    )
    for axes, rows in zip(grid, shown):
        _panel(axes, _shares(rows))
    if shown:
        lines = max(axes.get_title(loc="left").count("\n") for axes in grid)
        figure.set_figheight(figure.get_figheight() + BAR + LINE * lines * math.ceil(len(shown) / across))
        scale = ScalarMappable(Normalize(0, 100), COLOURS)
        bar = figure.colorbar(scale, ax=grid, location="bottom", fraction=0.05, aspect=45, pad=0.02)
        bar.set_label("share of the true class’s test nodes (%)")
        bar.outline.set_visible(False)  # type: ignore[operator]
    return Drawn(figure, points, _caption(plan, artefact_id, pd.DataFrame([rows.iloc[0] for rows in runs])))


def _title(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    target = "" if math.isnan(first["epsilon_target"]) else f", target ε\xa0=\xa0{significant(first['epsilon_target'])}"
    return f"{first['task_label']}: {first['label']}{target}"


def _shares(rows: pd.DataFrame) -> np.ndarray:
    """Return (true, predicted) shares of a run in percent, 0 where its points leave them out."""
    classes = int(rows[["true_class", "predicted_class"]].to_numpy().max()) + 1
    mean = np.zeros((classes, classes))
    own = rows[rows["predicted_class"] >= 0]  # others are of no class
    mean[own["true_class"].to_numpy(int), own["predicted_class"].to_numpy(int)] = own["share"].to_numpy(float)
    return mean


def _caption(plan: Plan, artefact_id: str, runs: pd.DataFrame) -> list[str]:
    """runs: a row for each."""
    good = runs[runs["share"].notna()]
    seeds = sorted({int(count) for count in good["n"]})
    empty = [f"{row.task_label}, {row.label}" for row in runs[runs["share"].isna()].itertuples()]
    return [
        *([f"Mean over {' or '.join(map(str, seeds))} seeds. Class ids as in the data."] if seeds else []),
        *words.methods_budgets(runs),
        *words.not_drawn(empty),
        *splits.fixed(plan, artefact_id),
        *protection.caption(runs),
    ]


def _panel(axes: Axes, mean: np.ndarray) -> None:
    classes = len(mean)
    axes.imshow(mean, cmap=COLOURS, vmin=0, vmax=100, interpolation="nearest", aspect="equal")
    axes.grid(False)
    axes.tick_params(length=0)
    step = max(1, math.ceil(classes / 9)) if classes > WRITTEN else 1
    axes.set_xticks(range(0, classes, step))
    axes.set_yticks(range(0, classes, step))
    if classes <= WRITTEN:
        for true, predicted in zip(*np.nonzero(mean >= 0.5)):
            share = mean[true, predicted]
            axes.text(
                predicted, true, f"{share:.0f}", ha="center", va="center", fontsize=6,
                color="white" if share > 45 else "#222222",
            )  # fmt: skip
