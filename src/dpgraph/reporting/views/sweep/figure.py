"""Sweep figures: accuracy against the values of one hyper-parameter, a panel per task and target epsilon."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dpgraph.engine.methods.looks import Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.chance import shown_as
from dpgraph.reporting.drawing import lines, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.epsilon_axis import set_ticks, tick
from dpgraph.reporting.drawing.facets import Facet, facets, laid_out, share_y
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.views.sweep.table import as_number, sweep_points

EDGE, MOST_EDGE = 0.06, 0.3  # shares of the axis before its first value and after its last
WIDE = 8.0  # largest / smallest value from which the axis is logarithmic, if values are spaced more evenly then


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, remark: str = "") -> Drawn:
    """Draw the artefact."""
    return drawn_from(plan, artefact_id, sweep_points(plan, artefact_id, results), remark)


def drawn_from(plan: Plan, artefact_id: str, every: pd.DataFrame, remark: str = "") -> Drawn:
    """Draw `sweep_points`: a panel per task and target epsilon, a line per method with its 95 % interval.

    A panel of one value is left out where another panel of its task has several. Methods without privacy are in every
    panel of their task. Printed numbers are hollow. Values that are words (full) stand at the right, in the suite's
    order.
    """
    artefact, placed = plan.artefacts[artefact_id], every[every["mean"].notna()]
    methods = lines.chosen_methods(plan.entries_of(artefact_id), placed)
    points = every[every["method"].isin(methods)]
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), shown_as(artefact)
    panels, empty = facets(plan, artefact_id, points)
    swept = {one.task for one in panels if _values(one) > 1}
    chosen = [one for one in panels if _values(one) > 1 or one.task not in swept]
    single = [one.title for one in panels if _values(one) <= 1 and one.task in swept]
    points = points[points.index.isin([row for one in chosen for row in one.rows.index])]
    ours = points[points["source"] == "ours"]
    sizes = ours[ours["mean"].notna()].groupby(["task", "method", "epsilon_target"], dropna=False).size()
    joined = bool((sizes >= marks.CURVE).any())  # else no method has points enough for a line
    handles = {**marks.method_handles(ours, looks, joined), **marks.reference_handle(points, shown)}
    label = artefact.sweep.label if artefact.sweep else ""
    figure, grid = laid_out(chosen, handles, plan.suite.demonstration, label, shown.label)
    for axes, one in zip(grid, chosen):
        _panel(axes, one.rows, looks, shown)
    share_y(chosen, grid)
    about = [remark, artefact.caption, *splits.fixed(plan, artefact_id), *words.not_drawn(empty)]
    about += [f"Not drawn, since one value was run: {', '.join(single)}."] * bool(single)
    kept = every[every["method"].isin(methods)]
    return Drawn(figure, every, words.described(kept, *about, *lines.left_out(placed, methods)), methods)


def _values(one: Facet) -> int:
    """Return how many values of the sweep a panel shows."""
    return int(one.rows.loc[one.rows["mean"].notna() & (one.rows["source"] == "ours"), "value"].nunique())


def _panel(axes: Axes, rows: pd.DataFrame, looks: Mapping[str, Look], shown: Quantity) -> None:
    drawn = rows[rows["mean"].notna()]
    place = positions(list(dict.fromkeys(drawn["value"])))  # values without a result have no place
    axes.margins(y=0.09)
    marks.reference_line(axes, rows, shown)
    methods = list(dict.fromkeys(drawn.loc[drawn["source"] == "ours", "method"]))
    gap = _x_axis(axes, place, marks.margin(len(methods)))
    for (method, _, source), part in drawn.groupby(["method", "epsilon_target", "source"], sort=False, dropna=False):
        style = looks[str(method)]
        x = part["value"].map(place.x).to_numpy(float)
        order = np.argsort(x, kind="stable")
        x, part = x[order], part.iloc[order]
        if source == "ours":
            marks.curve(axes, x, part, style, shown, marks.Slot(methods.index(method), len(methods), gap))
        else:
            std = part["std"].fillna(0.0).to_numpy(float)
            marks.hollow(axes, x, part["mean"].to_numpy(float), std, style)


class Places:
    """Positions of values on the x axis: numbers to scale, words one step apart at the right.

    On a logarithmic axis 0 stands one step left of the least number. `breaks` holds pairs of x between which the axis
    is not to scale.
    """

    def __init__(self, x: dict[str, float], logarithmic: bool, breaks: Sequence[tuple[float, float]] = ()) -> None:
        self.x, self.logarithmic, self.breaks = x, logarithmic, breaks


def positions(values: list[str]) -> Places:
    """Return where the values stand.

    >>> positions(["2500", "5000", "full"]).x
    {'2500': 2500.0, '5000': 5000.0, 'full': 7500.0}
    >>> positions(["1", "10", "100"]).logarithmic, positions(["10", "50", "90", "100"]).logarithmic
    (True, False)
    >>> places = positions(["0", "1", "10", "100"])
    >>> places.x["0"], places.breaks
    (0.1, [(0.1, 1.0)])
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
            words_at = {value: high * step ** (index + 1) for index, value in enumerate(others)}
            zero = [(min(positive) / step, min(positive))] if low == 0 else []
            return Places(at | words_at, True, [*zero, *_break(high, words_at)])
    step = (high - low) / max(len(set(every)) - 1, 1) or 1.0
    words_at = {value: high + step * (index + 1) for index, value in enumerate(others)}
    return Places(numbers | words_at, False, _break(high, words_at))


def _break(high: float, words_at: Mapping[str, float]) -> list[tuple[float, float]]:
    """Return the break between the largest number and the first word."""
    return [(high, x) for x in list(words_at.values())[:1]]


def _uneven(values: Sequence[float] | np.ndarray) -> float:
    """Return the standard deviation of the gaps between values over their mean."""
    gaps = np.diff(np.unique(values))
    return float(gaps.std() / gaps.mean())


def _x_axis(axes: Axes, place: Places, margin: float) -> float:
    """Set scale, limits and ticks; return the smallest distance between two values in inches.

    `margin` is the least distance in inches from the first and the last value to the ends of the axis.
    """
    if place.logarithmic:
        axes.set_xscale("log")
    shown = {x: value for value, x in place.x.items()}
    at = np.array(sorted(shown))
    scaled = np.log(at) if place.logarithmic else at
    inches = float(axes.get_position().width * axes.get_figure().get_figwidth())  # type: ignore[union-attr]
    share = min(max(EDGE, margin / inches), MOST_EDGE)
    beyond = share / (1 - 2 * share) * (scaled[-1] - scaled[0]) or 0.5
    ends = scaled[0] - beyond, scaled[-1] + beyond
    axes.set_xlim(*(np.exp(ends) if place.logarithmic else ends))
    places = {float(x): inches * float(to - ends[0]) / (ends[1] - ends[0]) for x, to in zip(at, scaled)}
    set_ticks(axes, {x: _tick(shown[x]) for x in places}, places)
    for left, right in place.breaks:
        marks.axis_break(axes, float(np.sqrt(left * right)) if place.logarithmic else (left + right) / 2)
    return inches * float(np.diff(scaled).min() if len(at) > 1 else beyond) / (ends[1] - ends[0])


def _tick(value: str) -> str:
    """Return a value as the text of a tick, thousands short: 2500 becomes 2.5k."""
    number = as_number(value)
    if number is None or number < 1000:
        return value
    return tick(number)
