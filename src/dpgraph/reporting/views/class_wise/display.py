"""Class-wise tables and figures: what privacy costs rare classes, and the accuracy of each class."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from dpgraph.engine.methods.looks import Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, protection, splits
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, Table, Text
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.epsilon_axis import tick
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import class_counts
from dpgraph.reporting.views.class_wise.rows import MEASURES, class_wise_points, fairness_table

COLUMNS = [
    "Method", "Target ε", *display.EPSILON_HEADS, "Seeds", "Accuracy (%)", "Worst class (%)", "Best − worst",
    "Frequent − rare third", "Correlation of loss with frequency",
]  # fmt: skip


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of class-wise accuracies."""
    frame = fairness_table(plan, artefact_id, results, class_counts(plan, artefact_id, results))
    return MadeTable(frame, fairness_display(heading(plan, artefact_id), frame))


def fairness_display(title: str, table: pd.DataFrame) -> Table:
    """Lay out the rows of `fairness_table`, a block per task."""
    notes = Footnotes()
    blocks = display.by_task(table, lambda row: _cells(row, notes), _title)
    remarks = [
        "Mean ± sample standard deviation over the seeds. Classes are those of the test nodes; thirds are by frequency "
        "in the training data. Loss: accuracy without privacy minus private, of the same seed. Its rank correlation "
        "with frequency (Spearman) is below 0 where rarer classes lose more.",
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    return Table(title, COLUMNS, blocks, notes.texts, remarks)


def _title(part: pd.DataFrame) -> str:
    classes = int(part["classes"].max())
    return display.with_delta(str(part["task_label"].iloc[0]) + (f", {classes} classes" if classes else ""), part)


def _cells(row: dict[str, Any], notes: Footnotes) -> list[Text]:
    measures = [display.measure_cell(row, name) for name in MEASURES]
    if row["status"] != "ok":
        measures = [display.failure(row, notes), *[Text(DASH)] * (len(MEASURES) - 1)]
    return [*display.head_cells(row, notes), display.seeds_cell(row, notes), *measures]


FEW = 16  # classes; with more a panel has the whole width
LABEL = 0.36  # inches of a label of the x axis
HEIGHT = 2.1  # inches
SMALL = 3.0  # size of marks where classes are many


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw from `class_wise_points`: a panel per task, marks for each method.

    A private method is shown at its largest target epsilon. The last place is the accuracy over all test nodes.
    """
    points = class_wise_points(plan, artefact_id, results, class_counts(plan, artefact_id, results))
    largest = points.groupby(["task", "method"])["epsilon_target"].transform("max")
    shown = points[points["epsilon_target"].isna() | (points["epsilon_target"] == largest)]
    known = shown.groupby("task", sort=False)["mean"].transform(lambda means: means.notna().any()).astype(bool)
    labels = dict(shown.loc[known, ["task", "task_label"]].drop_duplicates().itertuples(index=False))
    looks = looks_of_methods(plan.entries_of(artefact_id))
    many = shown["rank"].max() > FEW
    handles = marks.method_handles(shown, looks, line=False)
    across = 1 if many else canvas.ACROSS
    x, y = "class, most frequent first; below: its training nodes", "test accuracy (%)"
    figure, grid, width = canvas.panelled(
        list(labels.values()), handles, plan.suite.demonstration, x, y, across, HEIGHT, bool(many)
    )
    for axes, task_id in zip(grid, labels):
        _panel(axes, shown[shown["task"] == task_id], looks, width, SMALL if many else marks.SIZE)
    about = ["all: accuracy over all test nodes.", *splits.fixed(plan, artefact_id)]
    about += words.not_drawn(shown.loc[~known, "task_label"])
    return Drawn(figure, points, words.described(shown.assign(source="ours"), *about))


def _panel(axes: Axes, rows: pd.DataFrame, looks: Mapping[str, Look], width: float, size: float) -> None:
    axes.set_ylim(-3, 103)
    classes = rows[rows["class_id"] >= 0]
    train_nodes = classes.drop_duplicates("rank").set_index("rank")["train_nodes"]
    gap = width / (len(train_nodes) + 2)
    last = _x_axis(axes, train_nodes, gap)
    shown = quantity("class_accuracy/test")
    methods = list(dict.fromkeys(rows["method"]))
    for method, part in rows[rows["mean"].notna()].groupby("method", sort=False):
        x = part["rank"].where(part["class_id"] >= 0, last).to_numpy(float)
        side = marks.Slot(methods.index(method), len(methods), gap)
        marks.curve(axes, x, part, looks[str(method)], shown, side, ordered=False, size=size)


def _x_axis(axes: Axes, train_nodes: pd.Series, gap: float) -> float:
    """Set a tick for each class; return the position of all classes together.

    Labels are at equal steps, back from the rarest class.

    `gap` is the distance from one class to the next in inches.
    """
    classes = len(train_nodes)
    step = next((step for step in (1, 2, 5, 10, 20, 50) if step * gap >= LABEL), 100)
    ranks = list(range(classes, 0, -step))[::-1]
    last = classes + max(1.6, LABEL / gap)
    axes.set_xlim(0.4, last + 0.6)
    axes.axvline(classes + 0.8, color="#BBBBBB", linewidth=0.7)
    axes.xaxis.set_major_locator(FixedLocator([*ranks, last]))
    axes.xaxis.set_minor_locator(FixedLocator(range(1, classes + 1)))
    axes.set_xticklabels([*(f"{rank}\n{tick(train_nodes[rank])}" for rank in ranks), "all"], fontsize=6.5)
    return last
