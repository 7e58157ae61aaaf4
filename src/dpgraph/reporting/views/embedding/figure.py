"""Scatter plots of embeddings: a row per task and method, a column per target epsilon."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dpgraph.planning.plan import Plan
from dpgraph.reporting import protection
from dpgraph.reporting.artefacts import described_rows
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_classes
from dpgraph.reporting.formats import epsilon, significant
from dpgraph.reporting.views.embedding.rows import Embedded, embedded, embedding_points

PANEL = 1.75  # inches, both ways
WIDEST = 6.9  # inches: a page
TITLE = 0.34  # inches
EDGE = 0.42


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png; entries without a target are in the last column."""
    made = embedded(plan, artefact_id, results)
    rows = list(dict.fromkeys(map(_row, made)))
    columns = sorted({_column(one) for one in made})
    classes = sorted({int(name) for one in made for name in np.unique(one.classes)})
    side = min(PANEL, (WIDEST - EDGE) / len(columns))
    width = max(side * len(columns) + EDGE, canvas.PANEL[0])
    wide = 1 if width < 1.5 * canvas.PANEL[0] else 2
    legend = canvas.Legend(_handles(classes), _lines(made, wide), max(1, int(width / 0.75)))
    height = (side + TITLE) * len(rows) + EDGE + canvas.LEGEND_LINE * legend.height()
    with canvas.house_style(artefact_id):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        for axes in grid.ravel():
            axes.set_axis_off()
        for one in made:
            row, column = rows.index(_row(one)), columns.index(_column(one))
            axes = grid[row, column]
            axes.set_axis_on()
            _panel(axes, one, classes)
            if row == max(rows.index(_row(other)) for other in made if _column(other) == _column(one)):
                axes.set_xlabel("t-SNE 1", fontsize=7)
            if column == _first(made, one, columns):
                task = one.entry.suite_task.label + (", demonstration" if plan.suite.demonstration else "")
                axes.set_ylabel(f"{fill(one.entry.method.label, 26)}\n({task})\nt-SNE 2", fontsize=7)
        legend.draw(figure, handletextpad=0.1, columnspacing=1.2)
        return canvas.save_all(figure, stem), embedding_points(made)


def _row(one: Embedded) -> tuple[str, str]:
    return one.entry.task_id, one.entry.method_id


def _column(one: Embedded) -> float:
    return float("inf") if one.entry.epsilon is None else one.entry.epsilon


def _first(made: list[Embedded], one: Embedded, columns: list[float]) -> int:
    """The leftmost column of its row that is not empty."""
    return min(columns.index(_column(other)) for other in made if _row(other) == _row(one))


def _handles(classes: list[int]) -> dict[str, Line2D]:
    return {
        f"class {name}": Line2D([], [], color=look.colour, marker=look.marker, linestyle="", markersize=3.6)
        for name, look in looks_of_classes(classes).items()
    }


def _lines(made: list[Embedded], wide: int) -> list[str]:
    seeds = sorted({one.seed for one in made if len(one.classes)})
    counts = sorted({len(one.classes) for one in made if len(one.classes)})
    lines = []
    if seeds:
        span = f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
        text = f"Training roots of seed {' or '.join(map(str, seeds))}, {span} in a panel. Class ids as in the data."
        lines = words.notes(text, wide)
    lines += words.caption(described_rows(made), wide)
    for reason in dict.fromkeys(one.outcome.why_not for one in made if not len(one.classes)):
        lines += words.notes(f"Missing: {reason}", wide)
    return lines


def _panel(axes: Axes, one: Embedded, classes: list[int]) -> None:
    entry = one.entry
    title = "no privacy" if entry.cell.privacy is None else "one budget"
    if entry.epsilon is not None:
        title = f"target ε\xa0=\xa0{significant(entry.epsilon)}"
    if entry.cell.privacy is not None and one.outcome.ok:
        title += f"\npublished {epsilon(one.outcome.eps_published)}, rigorous {epsilon(one.outcome.eps_rigorous)}"
        title += protection.mark(one.outcome.privacy)
    axes.set_title(title, fontsize=6.5, fontweight="normal")
    axes.grid(False)
    if not len(one.classes):
        canvas.no_results(axes)
        return
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_box_aspect(1)
    for name, look in looks_of_classes(classes).items():
        own = one.places[one.classes == name]
        axes.scatter(own[:, 0], own[:, 1], s=7, c=look.colour, marker=look.marker, linewidths=0.2, edgecolors="white")
