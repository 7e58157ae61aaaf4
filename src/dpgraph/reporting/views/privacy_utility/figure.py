"""Privacy-utility figures: accuracy against the rigorous epsilon and, next to it, against the published one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dpgraph.experiments.axis import ReleaseAxis
from dpgraph.methods.looks import BLACK, Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats, protection, splits
from dpgraph.reporting.chance import shown_as
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import PANEL, Drawn
from dpgraph.reporting.drawing.palette import looks_of_methods, looks_of_values, with_line_of
from dpgraph.reporting.formats import significant
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.views.privacy_utility.rows import RELEASE, privacy_utility_points

MODES = ("rigorous", "published")  # left, right
MARKED = 4  # points of a curve along training; marks on all would hide the lines
NARROW = 33  # characters of a label that is followed by the values of a sweep
TICK_WIDTH = 0.19  # inches that a tick label needs


@dataclass
class Style:
    """What a curve is called and how it looks."""

    looks: dict[tuple[str, str], Look]  # by method and value
    labels: dict[str, str]  # by method
    values: list[str]  # of a sweep, where there are several
    label: str  # of the sweep, with its value where there is one
    public: frozenset[str]  # methods without privacy

    @classmethod
    def of(cls, plan: Plan, artefact_id: str, points: pd.DataFrame) -> Style:
        entries = plan.entries_of(artefact_id)
        values = list(dict.fromkeys(entry.value for entry in entries if entry.value is not None))
        sweep = plan.artefacts[artefact_id].sweep
        label = sweep.label if sweep else ""
        if len(values) == 1:  # only methods to distinguish
            label, values = f"{label}: {values[0]}", []
        by_value = looks_of_values(values)
        looks, of_methods = {}, looks_of_methods(entries)
        for entry in entries:
            own = of_methods[entry.method_id]
            looks[entry.method_id, entry.value or ""] = (
                own if entry.value not in by_value else with_line_of(by_value[entry.value], own)
            )
        public = frozenset(entry.method_id for entry in entries if entry.cell.privacy is None)
        labels = method_labels(points, NARROW) if values else method_labels(points)
        return cls(looks, labels, values, label, public)

    def handles(self) -> dict[str, Line2D]:
        """One per method; in a sweep one per value, and then one per method in black."""
        if not self.values:
            looks = {method: style for (method, _), style in self.looks.items()}
            return {
                text: marks.sample(looks[method], marks=method not in self.public)
                for method, text in self.labels.items()
            }
        handles = {value: marks.sample(style) for value, style in looks_of_values(self.values).items()}
        lines = {method: style.line for (method, _), style in self.looks.items()}
        for method, text in self.labels.items():
            handles[text] = marks.sample(Look(BLACK, "", lines[method]))
        return handles

    def legend(self, points: pd.DataFrame, remark: str, wide: int, shown: Quantity) -> canvas.Legend:
        lines = words.below(points, wide, remark)
        if self.values:
            lines.append(f"Colour and mark: {self.label}. Line: method.")
        elif self.label:
            lines.append(f"{self.label}.")
        handles = self.handles() | marks.reference_handle(points, shown)
        return canvas.Legend(handles, lines, (2 if self.values else 1) * wide)


def method_labels(points: pd.DataFrame, width: int = words.LABEL_WIDTH) -> dict[str, str]:
    """By method with results or to come: a private one that lacks one of the two epsilons, or has 0, states which."""
    labels = {}
    for method, rows in points[points["source"] == "ours"].groupby("method", sort=False):
        text = str(rows["label"].iloc[0])
        good = rows[rows["status"] == "ok"]
        if rows["variant"].iloc[0] != "none" and not good.empty:
            text += max(map(protection.mark, good.to_dict("records")))
            lacking = [mode for mode in MODES if good[f"eps_{mode}"].isna().all()]
            text += "".join(f"; {mode}\xa0ε:\xa0none" for mode in lacking)
            text += "".join(f"; {mode}\xa0ε:\xa00" for mode in MODES if (good[f"eps_{mode}"] == 0).all())
        labels[str(method)] = words.label(text, width)
    return labels


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path, remark: str = "") -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png: per task, a panel over the rigorous and one over the published epsilon.

    A run with both epsilons is in both panels. The paper's mechanism has no rigorous one and is at the right
    only, as do printed numbers (hollow). Where no run has one of the two, its panel is left out. Methods without
    privacy are horizontal lines; lines have 95 % intervals.
    """
    points = privacy_utility_points(plan, artefact_id, results)
    tasks = plan.tasks_of(artefact_id)
    ours = points[points["source"] == "ours"]
    private = points[(points["variant"] != "none") & points["mean"].notna()]
    axis = plan.artefacts[artefact_id].release_axis
    modes = [mode for mode in MODES if np.isfinite(private[f"eps_{mode}"]).any()] or [MODES[0]]
    if axis is not None:
        modes = [MODES[1]]
    style, shown = Style.of(plan, artefact_id, points), shown_as(plan.artefacts[artefact_id])
    with canvas.house_style(artefact_id):
        about = " ".join(filter(None, [remark, *splits.fixed(plan, artefact_id)]))
        legend = style.legend(points, about, canvas.ACROSS, shown)
        figure, places = canvas.panels(len(tasks), legend, len(modes))
        for place, (task_id, (task, _)) in zip(places, tasks.items()):
            rows = points[points["task"] == task_id]
            for axes, mode in zip(place, modes):
                column = f"eps_{mode}" if axis is None else RELEASE
                _panel(axes, rows, column, style, shown, last=mode == modes[-1], width=PANEL[0] / len(modes))
                name = f"{mode} ε" if axis is None else _release_name(axis)
                axes.set_xlabel(_x_label(name, rows, list(protection.kinds(ours, mode))))
                if rows["mean"].isna().all():
                    canvas.no_results(axes)
            _share_y(place)
            canvas.panel_title(place[0], task.label, plan.suite.demonstration)
            place[0].set_ylabel(shown.label)
        return canvas.save_all(figure, stem), points


def _release_name(axis: ReleaseAxis) -> str:
    """Of the axis, with what is fixed."""
    fixed = f"fixed ε$_{{sgd}}$ = {significant(axis.training_epsilon)}"
    if axis.factor < 1:
        fixed += f"; both after × q′ = {significant(axis.factor)}"
    return f"published ε$_{{pr}}$ ({fixed})"


def _x_label(name: str, rows: pd.DataFrame, kinds: list[str]) -> str:
    """`kinds`: relations and scopes in the figure; of several the legend states which run has which."""
    kind = "relations or scopes\ndiffer: see below" if len(kinds) > 1 else "".join(kinds).replace(", ", ",\n")
    deltas = formats.deltas(rows["delta"])
    return name + (f"\n{kind}" if kind else "") + (f"\nδ = {', '.join(deltas)}" if deltas else "")


def _share_y(place: list[Axes]) -> None:
    for axes in place[1:]:
        low = min(axes.get_ylim()[0], place[0].get_ylim()[0])
        high = max(axes.get_ylim()[1], place[0].get_ylim()[1])
        axes.sharey(place[0])
        place[0].set_ylim(low, high)
        axes.tick_params(labelleft=False)


def _panel(
    axes: Axes, points: pd.DataFrame, column: str, looks: Style, shown: Quantity, last: bool, width: float
) -> None:
    axes.set_xscale("log")
    axes.margins(y=0.09)
    marks.reference_line(axes, points)
    drawn = points[points["mean"].notna() & ((points["variant"] == "none") | np.isfinite(points[column]))]
    ours = drawn[drawn["source"] == "ours"]
    for (method, value), rows in ours.groupby(["method", "value"], sort=False):
        style = looks.looks[str(method), str(value)]
        if rows["variant"].iloc[0] == "none" or (rows[column] == 0).all():  # epsilon 0: within every budget
            marks.horizontal(axes, rows.iloc[-1], style, shown)
            continue
        # along training every target is a run of its own; else a curve joins the targets
        along = rows["step"].notna().any()
        runs = rows.groupby("epsilon_target", dropna=False) if along else [(None, rows)]
        for _, run in runs:
            run = run.sort_values(column)
            marks.curve(axes, run[column].to_numpy(float), run, style, shown, MARKED if along else len(run))
    for (method, value), rows in drawn[drawn["source"] != "ours"].groupby(["method", "value"], sort=False):
        style = looks.looks[str(method), str(value)]
        std = rows["std"].fillna(0.0).to_numpy(float)
        if rows["variant"].iloc[0] != "none":
            marks.hollow(axes, rows[column].to_numpy(float), rows["mean"].to_numpy(float), std, style)
        elif last:  # without privacy there is no place on the x axis: a mark on the right edge
            at_edge = axes.get_yaxis_transform()
            marks.hollow(axes, [1.0] * len(rows), rows["mean"].to_numpy(float), std, style, transform=at_edge)
    _x_axis(axes, drawn[drawn["variant"] != "none"], column, width)


def _x_axis(axes: Axes, private: pd.DataFrame, column: str, width: float) -> None:
    axes.xaxis.set_minor_locator(NullLocator())
    private = private[private[column] > 0]
    if private.empty:
        axes.set_xticks([], [])
        return
    low, high = private[column].min(), private[column].max()
    low, high = low / 1.18, high * 1.18
    if high / low < 2:  # a single budget
        low, high = low / 1.5, high * 1.5
    axes.set_xlim(low, high)
    targets = private[column] if column == RELEASE else private["epsilon_target"].fillna(private["eps_published"])
    on_target = targets[(private[column] / targets - 1).abs() < 0.03]
    longest = max(len(tick(value)) for value in (*on_target, *round_numbers(low, high)))
    ratio = (high / low) ** (TICK_WIDTH * max(1.0, longest / 3) / (width - 0.5))
    ticks = apart(on_target, ratio)
    if private["step"].notna().any() or len(ticks) < 2 or ticks[0] > 1.6 * low or ticks[-1] < high / 1.6:
        ticks = apart(round_numbers(low, high), ratio)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))


def tick(value: float) -> str:
    """Three digits at most, thousands short: proved epsilons of a false claim may be that large.

    >>> tick(0.5), tick(136.51), tick(5000.0), tick(200000.0), tick(2e6)
    ('0.5', '137', '5k', '200k', '2M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{significant(value / unit)}{name}"
    return significant(value)


def round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or what is between them where that is too coarse.

    >>> round_numbers(0.9, 25), round_numbers(11, 19)
    ([1.0, 2.0, 5.0, 10.0, 20.0], [12.0, 15.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8)):
        values = (float(f"{step * 10.0**power:.6g}") for power in powers for step in steps)
        inside = [value for value in values if low <= value <= high]
        if len(inside) >= 2:
            return inside
    return inside or [float(f"{math.sqrt(low * high):.2g}")]


def apart(values: Iterable[float], ratio: float) -> list[float]:
    """Ascending, without those that are closer than `ratio` to the one before on a logarithmic axis.

    >>> apart([12, 1, 2, 12.5, 4], 1.2)
    [1, 2, 4, 12]
    """
    kept: list[float] = []
    for value in sorted(set(values)):
        if not kept or value > ratio * kept[-1]:
            kept.append(value)
    return kept
