"""Sweep figures: accuracy against the values of one hyper-parameter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats, splits
from dpgraph.reporting.chance import shown_as
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import Line, Look, looks_of_lines
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.views.sweep.rows import as_number, sweep_points

WIDE = 8.0  # largest / smallest value from which the axis is logarithmic, if values are spaced more evenly then


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path, remark: str = "") -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png from `sweep_points`: a panel per task.

    A line per method and target epsilon with its 95 % interval, those without privacy too; of one method the lighter
    line is the more private. Printed numbers are hollow. Values that are no numbers (full) are at the right, in the
    suite's order.
    """
    points = sweep_points(plan, artefact_id, results)
    artefact = plan.artefacts[artefact_id]
    drawn = points.assign(target=points["epsilon_target"].fillna(-1.0))
    looks, shown = looks_of_lines(plan.entries_of(artefact_id)), shown_as(artefact)
    tasks = plan.tasks_of(artefact_id)
    wide = canvas.ACROSS
    with canvas.house_style(artefact_id):
        handles = _handles(drawn, looks) | marks.reference_handle(points, shown)
        lines = words.below(points, wide, " ".join(filter(None, [remark, *splits.fixed(plan, artefact_id)])))
        figure, grid = canvas.panels(len(tasks), canvas.Legend(handles, lines, wide))
        for (axes,), (task_id, (task, _)) in zip(grid, tasks.items()):
            rows = drawn[drawn["task"] == task_id]
            canvas.panel_title(axes, task.label, plan.suite.demonstration)
            axes.set_xlabel(artefact.sweep.label if artefact.sweep else "")
            axes.set_ylabel(shown.label)
            if rows["mean"].isna().all():
                canvas.no_results(axes)
            else:
                _panel(axes, rows, looks, shown)
        return canvas.save_all(figure, stem), points


def _handles(points: pd.DataFrame, looks: dict[Line, Look]) -> dict[str, Line2D]:
    """A private method at each target with its two epsilons, at the same delta; a control has one handle."""
    handles = {}
    ours = points[points["source"] == "ours"]
    for method, rows in ours.groupby("method", sort=False):
        targets = sorted(rows["target"].unique())
        one = looks[str(method), targets[-1]]
        parts = (
            [(targets[-1], rows)] if one.neutral else [(target, rows[rows["target"] == target]) for target in targets]
        )
        for target, part in parts:
            text = words.run_label(str(part["label"].iloc[0]), target if len(parts) > 1 else None)
            good = part[part["status"] == "ok"]
            if part["variant"].iloc[0] != "none" and not good.empty:
                deltas = formats.deltas(good["delta"])
                at = f" (δ\xa0=\xa0{deltas[0]})" if len(deltas) == 1 else ""
                text += "\n" + words.label(words.budget(good) + at)
            handles[text] = marks.sample(looks[str(method), target])
    return handles


def _panel(axes: Axes, rows: pd.DataFrame, looks: dict[Line, Look], shown: Quantity) -> None:
    place = positions(list(dict.fromkeys(rows["value"])))
    axes.margins(y=0.09)
    marks.reference_line(axes, rows)
    drawn = rows[rows["mean"].notna()]
    for (method, target, source), part in drawn.groupby(["method", "target", "source"], sort=False):
        style = looks[str(method), float(target)]
        x = part["value"].map(place.x).to_numpy(float)
        order = np.argsort(x, kind="stable")
        x, part = x[order], part.iloc[order]
        if source == "ours":
            marks.curve(axes, x, part, style, shown)
        else:
            std = part["std"].fillna(0.0).to_numpy(float)
            marks.hollow(axes, x, part["mean"].to_numpy(float), std, style)
    _x_axis(axes, place)


class Places:
    """Where values are on the x axis: numbers to scale, all other labels one step apart at the right.

    On a logarithmic axis 0 is one step left of the least.
    """

    def __init__(self, x: dict[str, float], logarithmic: bool) -> None:
        self.x, self.logarithmic = x, logarithmic


def positions(values: list[str]) -> Places:
    """
    >>> positions(["2500", "5000", "full"]).x
    {'2500': 2500.0, '5000': 5000.0, 'full': 7500.0}
    >>> positions(["1", "10", "100"]).logarithmic, positions(["10", "50", "90", "100"]).logarithmic
    (True, False)
    >>> positions(["0", "1", "10", "100"]).x["0"]
    0.1
    """
    numbers = {value: number for value in values if (number := as_number(value)) is not None}
    others = [value for value in values if value not in numbers]
    if not numbers:
        return Places({value: float(index) for index, value in enumerate(others)}, False)
    every = list(numbers.values())
    low, high = min(every), max(every)
    positive = [number for number in every if number > 0]
    if low >= 0 and len(positive) > 1 and max(positive) / min(positive) >= WIDE:
        step = (high / min(positive)) ** (1 / max(len(set(positive)) - 1, 1))
        at = {value: number or min(positive) / step for value, number in numbers.items()}
        if _uneven(np.log(list(at.values()))) < _uneven(every):
            return Places(at | {value: high * step ** (index + 1) for index, value in enumerate(others)}, True)
    step = (high - low) / max(len(set(every)) - 1, 1) or 1.0
    return Places(numbers | {value: high + step * (index + 1) for index, value in enumerate(others)}, False)


def _uneven(values: Sequence[float] | np.ndarray) -> float:
    """How unequal the gaps between the values are: their standard deviation over their mean."""
    gaps = np.diff(np.unique(values))
    return float(gaps.std() / gaps.mean())


def _x_axis(axes: Axes, place: Places) -> None:
    if place.logarithmic:
        axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    shown = {x: value for value, x in place.x.items()}
    axes.xaxis.set_major_locator(FixedLocator(sorted(shown)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _tick(shown[min(shown, key=lambda at: abs(at - x))])))


def _tick(value: str) -> str:
    """Thousands short, so that neighbours do not touch: 2500 is 2.5k."""
    number = as_number(value)
    if number is None or number < 1000:
        return value
    return f"{number / 1000:g}k"
