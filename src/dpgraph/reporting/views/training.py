"""Figures of a metric along training, or against accuracy: a curve per method."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from dpgraph.config.experiment import ACCURACY
from dpgraph.engine.methods.looks import DASHED, GREY, Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import described, own_point
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.epsilon_axis import tick
from dpgraph.reporting.drawing.facets import facets, laid_out, share_y
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import PRIVACY, EntryResult, Results

COLUMNS = [
    "paper", "artefact", "task", "task_label", "method", "label", "variant", "epsilon_target", "source", "metric",
    "step", "mean", "std", "ci_low", "ci_high", "n", *PRIVACY, "status", "reason",
]  # fmt: skip

LEAST = 5  # points of a spline
SPLINE = "#C00000"


def training_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per entry, metric and evaluation, `step` ascending; one without a step where there is no value."""
    known, told, rows = Results.of(results), plan.artefacts[artefact_id], []
    for entry in plan.entries_of(artefact_id):
        for metric in filter(None, (told.metric, told.second_metric)):
            reached: list[tuple[float, EntryResult]] = [*known.along_training(entry, metric)]
            found = reached or [(math.nan, known.outcome(entry, metric))]
            rows += [own_point(entry, *one) | {"metric": metric} for one in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def spline(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a cubic smoothing spline as 200 points; None for fewer than five values.

    The thesis says "smoothing" only; generalised cross-validation decides how smooth the spline is.
    """
    from scipy.interpolate import make_smoothing_spline

    if len(steps) < LEAST:
        return None
    places = np.linspace(steps[0], steps[-1], 200)
    return places, make_smoothing_spline(steps / steps[-1], values)(places / steps[-1])


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw a panel per task and target epsilon, a curve with 95 % intervals per method."""
    points = training_points(plan, artefact_id, results)
    told = plan.artefacts[artefact_id]
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(told.metric)
    chosen, empty = facets(plan, artefact_id, points)
    others = {"smoothing spline": Look(SPLINE, "", "-")} if told.spline else {}
    others |= {quantity(told.second_metric).label: Look(GREY, "", DASHED)} if told.second_metric else {}
    handles = marks.method_handles(points, looks)
    handles |= {name: marks.sample(look) for name, look in others.items() if handles}
    figure, grid = laid_out(chosen, handles, plan.suite.demonstration, "steps", shown.label)
    for axes, one in zip(grid, chosen):
        for (method, metric), part in one.rows[one.rows["mean"].notna()].groupby(["method", "metric"], sort=False):
            style, steps = looks[str(method)], part["step"].to_numpy(float)
            marks.curve(axes, steps, part, style if metric == told.metric else replace(style, line=DASHED), shown)
            if told.spline and (fitted := spline(steps, part["mean"].to_numpy(float))) is not None:
                axes.plot(*fitted, color=SPLINE, linewidth=1.5)
    share_y(chosen, grid)
    about = [told.caption, *splits.fixed(plan, artefact_id), *words.not_drawn(empty)]
    return Drawn(figure, points, words.described(points, *about))


def draw_matched(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw a panel per task and attack; runs of a method are marks with their target epsilon."""
    points, told = matched_points(plan, artefact_id, results), plan.artefacts[artefact_id]
    attack, shown = points["attack"], quantity(told.metric)
    several = attack.nunique() > 1  # then panels name it, and labels of methods do not
    names = [name.removesuffix(f", {one}") if several else name for name, one in zip(points["label"], attack)]
    drawn = points.assign(method=names, label=names)[points["mean"].notna() & points["accuracy_mean"].notna()]
    of_methods = looks_of_methods(plan.entries_of(artefact_id))
    looks = {name: of_methods[method] for name, method in reversed([*zip(names, points["method"])])}
    panels = {
        f"{task}, {one} attack" if several else str(task): rows
        for (task, one), rows in drawn.groupby(["task_label", "attack"], sort=False)
    }
    handles = {**marks.method_handles(drawn, looks, line=False), **marks.reference_handle(drawn, shown)}
    figure, grid, _ = canvas.panelled([*panels], handles, plan.suite.demonstration, "test accuracy (%)", shown.label)
    for axes, rows in zip(grid, panels.values()):
        marks.reference_line(axes, rows, shown)
        axes.margins(0.12)
        for name, part in rows.groupby("method", sort=False):
            x, y, style = part["accuracy_mean"].to_numpy(float), part["mean"].to_numpy(float), looks[str(name)]
            marks.curve(axes, x, part, style, shown, ordered=False)
            ends = [x - part["accuracy_ci_low"], part["accuracy_ci_high"] - x]
            axes.errorbar(x, y, xerr=np.nan_to_num(ends), fmt="", linestyle="", ecolor=style.colour, elinewidth=0.9)
            for target, *place in part[["epsilon_target", "accuracy_mean", "mean"]].dropna().to_numpy():
                axes.annotate(tick(target), place, (4, 4), textcoords="offset points", fontsize=6, zorder=9)
    canvas.share_y(grid[: canvas.ACROSS if several else 1])
    for axes in grid:
        canvas.drop_overlapping(axes)
    numbers = "Numbers at marks, where there is room: target ε." * bool(drawn["epsilon_target"].any())
    return Drawn(figure, points, words.described(points, told.caption, numbers, *splits.fixed(plan, artefact_id)))


def matched_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per entry: mean, std and 95 % interval of the artefact's metric and of test accuracy."""
    known, metric, rows = Results.of(results), plan.artefacts[artefact_id].metric, []
    for entry in plan.entries_of(artefact_id):
        outcome, accuracy = known.outcome(entry, metric), known.outcome(entry, ACCURACY).summary()
        row = described(entry, outcome) | {"value": entry.value or "", "source": "ours"}
        row["attack"] = getattr(getattr(entry.cell, "inversion", None), "attack", "")
        row |= outcome.summary().columns | {f"accuracy_{name}": value for name, value in accuracy.columns.items()}
        rows.append(row | known.reference(entry, metric))
    return pd.DataFrame(rows)
