"""Scatter plots of embeddings: a row per task and method, a column per target epsilon."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpgraph.planning.plan import Plan
from dpgraph.reporting import protection
from dpgraph.reporting.artefacts import described_rows
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_classes
from dpgraph.reporting.formats import epsilon, significant
from dpgraph.reporting.views.embedding.rows import Embedded, embedded, embedding_points

SIDE = 1.9  # inches, both ways, at most
AROUND = 0.45  # inches of a panel's title
NAMES = 26  # characters of a row's label


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png; entries without a target are in the last column."""
    made = embedded(plan, artefact_id, results)
    shown = [one for one in made if len(one.classes)]
    rows = list(dict.fromkeys(map(_row, shown)))
    columns = sorted({_column(one) for one in shown})
    classes = sorted({int(name) for one in shown for name in np.unique(one.classes)})
    with canvas.house_style(artefact_id):
        across, down = max(len(columns), 1), max(len(rows), 1)
        height = min(SIDE, canvas.WIDTH / across) + AROUND
        figure, places, _ = canvas.panels([1] * across * down, _handles(classes), across, height)
        grid = np.array([axes for (axes,) in places]).reshape(down, across)
        for axes in grid.ravel():
            axes.set_axis_off()
        for one in shown:
            row, column = rows.index(_row(one)), columns.index(_column(one))
            axes = grid[row, column]
            axes.set_axis_on()
            _panel(axes, one, classes)
            if row == max(rows.index(_row(other)) for other in shown if _column(other) == _column(one)):
                axes.set_xlabel("t-SNE 1", fontsize=7)
            if column == min(columns.index(_column(other)) for other in shown if _row(other) == _row(one)):
                task = one.entry.suite_task.label + (", demonstration" if plan.suite.demonstration else "")
                axes.set_ylabel(
                    f"{fill(one.entry.method.label, NAMES)}\n{fill(f'({task})', NAMES)}\nt-SNE 2", fontsize=7
                )
        if not shown:
            grid[0, 0].set_axis_on()
            canvas.no_results(grid[0, 0])
        files = canvas.save_all(figure, stem)
    return Drawn(files, embedding_points(made), _caption(made))


def _row(one: Embedded) -> tuple[str, str]:
    return one.entry.task_id, one.entry.method_id


def _column(one: Embedded) -> float:
    return float("inf") if one.entry.epsilon is None else one.entry.epsilon


def _handles(classes: list[int]) -> dict[str, Artist]:
    return {
        f"class {name}": Line2D([], [], color=look.colour, marker=look.marker, linestyle="", markersize=3.6)
        for name, look in looks_of_classes(classes).items()
    }


def _caption(made: list[Embedded]) -> list[str]:
    seeds = sorted({one.seed for one in made if len(one.classes)})
    counts = sorted({len(one.classes) for one in made if len(one.classes)})
    lines = []
    if seeds:
        span = f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
        lines = [f"Training roots of seed {' or '.join(map(str, seeds))}, {span} in a panel. Class ids as in the data."]
    rows = described_rows(made)
    lines += [*words.methods_budgets(rows), *protection.caption(rows)]
    empty = [one for one in made if not len(one.classes)]
    lines += words.not_drawn(f"{one.entry.suite_task.label}, {one.entry.method.label}" for one in empty)
    return lines + [f"Missing: {reason}." for reason in dict.fromkeys(one.outcome.why_not for one in empty)]


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
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_box_aspect(1)
    for name, look in looks_of_classes(classes).items():
        own = one.places[one.classes == name]
        axes.scatter(own[:, 0], own[:, 1], s=7, c=look.colour, marker=look.marker, linewidths=0.2, edgecolors="white")
