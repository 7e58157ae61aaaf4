"""Sweep figures: accuracy against the values of one hyper-parameter."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dpgraph.experiments.plan import Plan
from dpgraph.reporting import drawing
from dpgraph.reporting.formats import metric, power_of_ten, significant
from dpgraph.reporting.palette import Look, look

WIDE = 8.0  # largest / smallest value from which the axis is logarithmic


def sweep_figure(plan: Plan, artefact_id: str, points: pd.DataFrame, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg and stem.png from `sweep_points`: a panel per task and target epsilon.

    A line per method with its 95 % interval, those without privacy too; printed numbers are hollow. Values that are no
    numbers (full) stand at the right, in the suite's order.
    """
    artefact = plan.artefacts[artefact_id]
    looks = {entry.method_id: look(entry.cell) for entry in plan.entries_of(artefact_id)}
    places = [
        (task_id, target)
        for task_id in plan.tasks_of(artefact_id)
        for target in _targets(points[points["task"] == task_id])
    ]
    wide = drawing.across(len(places))
    with drawing.house_style(artefact_id):
        lines = [*drawing.uncertainty(points), *drawing.missing_lines(points, wide)]
        figure, grid = drawing.panels(len(places), drawing.Legend(_handles(points, looks), lines, wide))
        for (axes,), (task_id, target) in zip(grid, places):
            rows = points[points["task"] == task_id]
            several = len(_targets(rows)) > 1
            rows = rows[rows["epsilon_target"].isna() | (rows["epsilon_target"] == target)]
            label = str(rows["task_label"].iloc[0])
            title = f"{label}, target ε = {significant(target)}" if several else label
            drawing.panel_title(axes, title, plan.suite.demonstration)
            axes.set_xlabel(artefact.sweep.label if artefact.sweep else "")
            axes.set_ylabel(metric(artefact.metric))
            if rows["mean"].isna().all():
                drawing.no_results(axes)
            else:
                _panel(axes, rows, looks)
        return drawing.save_all(figure, stem)


def _targets(rows: pd.DataFrame) -> list[float]:
    return sorted(rows["epsilon_target"].dropna().unique()) or [math.nan]


def _handles(points: pd.DataFrame, looks: dict[str, Look]) -> dict[str, Line2D]:
    """A private method with its two epsilons, at the same delta."""
    handles = {}
    for method, rows in points[points["source"] == "ours"].groupby("method", sort=False):
        good = rows[rows["status"] == "ok"]
        text = drawing.label(str(rows["label"].iloc[0]))
        if rows["variant"].iloc[0] != "none" and not good.empty:
            deltas = sorted({power_of_ten(value) for value in good["delta"].dropna() if value > 0})
            at = f" (δ\xa0=\xa0{deltas[0]})" if len(deltas) == 1 else ""
            text += "\n" + drawing.label(drawing.budget(good) + at)
        handles[text] = drawing.sample(looks[str(method)])
    return handles


def _panel(axes: Axes, rows: pd.DataFrame, looks: dict[str, Look]) -> None:
    place = positions(list(dict.fromkeys(rows["value"])))
    axes.margins(y=0.09)
    drawn = rows[rows["mean"].notna()]
    for (method, source), part in drawn.groupby(["method", "source"], sort=False):
        style = looks[str(method)]
        x = part["value"].map(place.x).to_numpy(float)
        order = np.argsort(x, kind="stable")
        x, part = x[order], part.iloc[order]
        if source == "ours":
            drawing.curve(axes, x, part, style)
        else:
            std = part["std"].fillna(0.0).to_numpy(float)
            drawing.hollow(axes, x, part["mean"].to_numpy(float), std, style)
    _x_axis(axes, place)


class Places:
    """Where values stand on the x axis: numbers to scale, all other labels one step apart at the right."""

    def __init__(self, x: dict[str, float], logarithmic: bool) -> None:
        self.x, self.logarithmic = x, logarithmic


def positions(values: list[str]) -> Places:
    """
    >>> positions(["2500", "5000", "full"]).x
    {'2500': 2500.0, '5000': 5000.0, 'full': 7500.0}
    """
    numbers = {value: number for value in values if (number := _number(value)) is not None}
    others = [value for value in values if value not in numbers]
    if not numbers:
        return Places({value: float(index) for index, value in enumerate(others)}, False)
    low, high = min(numbers.values()), max(numbers.values())
    logarithmic = low > 0 and high / low >= WIDE
    steps = max(len(set(numbers.values())) - 1, 1)
    if logarithmic:
        step = (high / low) ** (1 / steps)
        right = {value: high * step ** (index + 1) for index, value in enumerate(others)}
    else:
        step = (high - low) / steps or 1.0
        right = {value: high + step * (index + 1) for index, value in enumerate(others)}
    return Places(numbers | right, logarithmic)


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _x_axis(axes: Axes, place: Places) -> None:
    if place.logarithmic:
        axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    shown = {x: value for value, x in place.x.items()}
    axes.xaxis.set_major_locator(FixedLocator(sorted(shown)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _tick(shown[min(shown, key=lambda at: abs(at - x))])))


def _tick(value: str) -> str:
    """Thousands short, so that neighbours do not touch: 2500 is 2.5k."""
    number = _number(value)
    if number is None or number < 1000:
        return value
    return f"{number / 1000:g}k"
