"""ROC of membership inference on logarithmic axes, with what the rigorous epsilon forbids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import drawing
from dpgraph.reporting.class_wise import described
from dpgraph.reporting.formats import epsilon, significant
from dpgraph.reporting.membership import GRID, SCORES, Attack, Bound, budget_steps
from dpgraph.reporting.membership_display import BOUND, WHAT
from dpgraph.reporting.palette import Look, looks_of_methods, shades

LOWEST = 1e-3  # of both axes
VISIBLE = 0.95  # TPR that a bound allows at the lowest FPR; a higher one coincides with the upper edge
MARKS = 20  # points of a curve between two marks
FORBIDDEN = "#8A8A8A"
HEIGHT = 2.9  # inches

Line = tuple[str, float]  # method, target epsilon (-1: none)


def membership_figure(plan: Plan, artefact_id: str, made: list[Attack], stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg and stem.png: a row per task, a panel per attack, a curve per method and epsilon.

    Curves are mean TPR over seeds at fixed FPR, from the smallest FPR that the candidates resolve. Shaded: what each
    distinct bound forbids; the darker, the more of the bounds do.
    """
    tasks = plan.tasks_of(artefact_id)
    looks = _looks(plan, artefact_id)
    with drawing.house_style(artefact_id):
        legend = drawing.Legend(_handles(made, looks), _lines(made), 2)
        figure, grid = drawing.panels(2 * len(tasks), legend, height=HEIGHT)
        for place, (task_id, (task, _)) in enumerate(tasks.items()):
            for (axes,), (score, name) in zip(grid[2 * place : 2 * place + 2], SCORES.items()):
                chosen = [one for one in made if (one.entry.task_id, one.score) == (task_id, score)]
                drawing.panel_title(axes, f"{task.label}, {name}", plan.suite.demonstration)
                _panel(axes, chosen, looks)
        return drawing.save_all(figure, stem)


def _line(entry: Entry) -> Line:
    return entry.method_id, -1.0 if entry.epsilon is None else entry.epsilon


def _looks(plan: Plan, artefact_id: str) -> dict[Line, Look]:
    entries = plan.entries_of(artefact_id)
    looks, lines = looks_of_methods(entries), {_line(entry) for entry in entries}
    found: dict[Line, Look] = {}
    for method, look in looks.items():
        own = sorted(line for line in lines if line[0] == method)
        found |= dict(zip(own, shades(look, len(own))))
    return found


def _handles(made: list[Attack], looks: dict[Line, Look]) -> dict[str, Line2D]:
    """A method at each target, with its two epsilons; over several tasks the range of each."""
    handles: dict[str, Line2D] = {}
    for line, style in looks.items():
        own = [one for one in made if _line(one.entry) == line]
        text = own[0].entry.method.label
        if own[0].entry.epsilon is not None:
            text += f", target ε\xa0=\xa0{significant(own[0].entry.epsilon)}"
        text = drawing.label(text)
        good = [one for one in own if one.outcome.ok]
        if own[0].entry.cell.privacy is not None and good:
            text += "\n" + drawing.label(drawing.budget(_described(good)))
        handles[text] = drawing.sample(style)
    return handles


def _described(made: list[Attack]) -> pd.DataFrame:
    return pd.DataFrame([described(one.entry, one.outcome) for one in made])


def _lines(made: list[Attack]) -> list[str]:
    seeds = sorted({len(one.seeds) for one in made if one.seeds})
    over = f" over {' or '.join(map(str, seeds))} seeds" if seeds else ""
    lines = drawing.notes(
        f"Mean TPR{over} at fixed FPR. {WHAT} Dotted: guessing. Shaded: what a bound forbids. {BOUND}", 2
    )
    lines += drawing.caption(_described(made), 2)
    limits = _bounds([one for one in made if one.seeds])
    if limits:
        named = "; ".join(limits)
        lines += drawing.notes(
            f"Grey lines, from below: bounds of rigorous ε (node-null) {named}; larger ε allow all that is drawn.", 2
        )
    elif any(one.bound is not None for one in made):
        lines.append("The rigorous ε of all runs allow all that is drawn.")
    missing = dict.fromkeys((one.score, one.reason) for one in made if not one.seeds)
    for score, reason in missing:
        own = [one.entry for one in made if (one.score, one.reason) == (score, reason)]
        names = ", ".join(dict.fromkeys(f"{entry.method.label} on {entry.suite_task.label}" for entry in own))
        lines += drawing.notes(f"Missing, {SCORES[score]}: {names} ({reason})", 2)
    return lines


def _panel(axes: Axes, chosen: list[Attack], looks: dict[Line, Look]) -> None:
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    drawn = [one for one in chosen if one.seeds]
    if not drawn:
        drawing.no_results(axes)
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.grid(True, which="major", axis="both")
    low = max(LOWEST, min(1 / one.seeds[0].others for one in drawn))
    axes.set_xlim(low, 1)
    axes.set_ylim(low, 1.12)
    axes.plot([low, 1], [low, 1], color=drawing.GREY, linestyle=(0, (1, 1.5)), linewidth=0.9, zorder=1)
    for bound in _bounds(drawn).values():
        _forbidden(axes, bound, low)
    for number, one in enumerate(drawn):
        style = looks[_line(one.entry)]
        kept = one.seeds[0].others * GRID >= 1
        tpr = np.where(one.mean_tpr[kept] > 0, one.mean_tpr[kept], np.nan)
        shape: dict[str, Any] = {"marker": style.marker, "markeredgecolor": "white", "markeredgewidth": 0.5}
        places = (number * MARKS // len(drawn), MARKS)  # marks of curves that coincide stand side by side
        axes.plot(
            GRID[kept],
            tpr,
            color=style.colour,
            linestyle=style.line,
            linewidth=1.1,
            zorder=3,
            markevery=places,
            **shape,
        )


def _bounds(drawn: list[Attack]) -> dict[str, Bound]:
    """Distinct ones that forbid what could be seen, the smallest first, by the rigorous epsilon they come from."""
    found: dict[str, Bound] = {}
    for one in drawn:
        if one.bound is not None and one.bound.tpr(np.array([LOWEST]))[0] < VISIBLE:
            times = "2 · " if budget_steps(one.entry.cell) == 2 else ""
            found.setdefault(f"{times}{epsilon(one.outcome.eps_rigorous)}", one.bound)
    return dict(sorted(found.items(), key=lambda item: item[1].epsilon))


def _forbidden(axes: Axes, bound: Bound, low: float) -> None:
    fpr = np.geomspace(low, 1.0, 400)
    allowed = bound.tpr(fpr)
    axes.fill_between(fpr, allowed, 1.0, color=FORBIDDEN, alpha=0.16, linewidth=0, zorder=0)
    axes.plot(fpr, allowed, color=FORBIDDEN, linewidth=0.8, zorder=1)
