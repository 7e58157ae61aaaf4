"""ROC of membership inference on logarithmic axes, with what the rigorous epsilon forbids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import described_rows
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import Line, Look, line_of, looks_of_lines
from dpgraph.reporting.formats import epsilon
from dpgraph.reporting.views.membership.attacks import GRID, SCORES, Attack, Bound, attacks, budget_steps
from dpgraph.reporting.views.membership.rows import membership_points
from dpgraph.reporting.views.membership.table import BOUND, WHAT

LOWEST = 1e-3  # of both axes
VISIBLE = 0.95  # TPR that a bound allows at the lowest FPR; a higher one coincides with the upper edge
MARKS = 20  # points of a curve between two marks
FORBIDDEN = "#8A8A8A"
HEIGHT = 2.9  # inches


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png: a row per task, a panel per attack, a curve per method and epsilon.

    Curves are mean TPR over seeds at fixed FPR, from the smallest FPR that the candidates resolve. Shaded: what each
    distinct bound forbids; the darker, the more of the bounds do.
    """
    made = attacks(plan, artefact_id, results)
    tasks = plan.tasks_of(artefact_id)
    looks = looks_of_lines(plan.entries_of(artefact_id))
    with canvas.house_style(artefact_id):
        lines = _lines(made) + words.notes(" ".join(splits.fixed(plan, artefact_id)), 2)
        legend = canvas.Legend(_handles(made, looks), lines, 2)
        figure, grid = canvas.panels(2 * len(tasks), legend, height=HEIGHT)
        for place, (task_id, (task, _)) in enumerate(tasks.items()):
            for (axes,), (score, name) in zip(grid[2 * place : 2 * place + 2], SCORES.items()):
                chosen = [one for one in made if (one.entry.task_id, one.score) == (task_id, score)]
                canvas.panel_title(axes, f"{task.label}, {name}", plan.suite.demonstration)
                _panel(axes, chosen, looks)
        return canvas.save_all(figure, stem), membership_points(made)


def _handles(made: list[Attack], looks: dict[Line, Look]) -> dict[str, Line2D]:
    """A method at each target, with its two epsilons; over several tasks the range of each."""
    handles: dict[str, Line2D] = {}
    for line, style in looks.items():
        own = [one for one in made if line_of(one.entry) == line]
        text = words.run_label(own[0].entry.method.label, own[0].entry.epsilon)
        good = [one for one in own if one.outcome.ok]
        if own[0].entry.cell.privacy is not None and good:
            text += "\n" + words.label(words.budget(described_rows(good)))
        handles[text] = marks.sample(style)
    return handles


def _lines(made: list[Attack]) -> list[str]:
    seeds = sorted({len(one.seeds) for one in made if one.seeds})
    over = f" over {' or '.join(map(str, seeds))} seeds" if seeds else ""
    lines = words.notes(
        f"Mean TPR{over} at fixed FPR. {WHAT} Dotted: guessing. Shaded: what a bound forbids. {BOUND}", 2
    )
    lines += words.caption(described_rows(made), 2)
    limits = _bounds([one for one in made if one.seeds])
    if limits:
        named = "; ".join(limits)
        lines += words.notes(
            f"Grey lines, from below: bounds of rigorous ε (node-null) {named}; larger ε allow all that is drawn.", 2
        )
    elif any(one.bound is not None for one in made):
        lines.append("The rigorous ε of all runs allow all that is drawn.")
    missing = dict.fromkeys((one.score, one.reason) for one in made if not one.seeds)
    for score, reason in missing:
        own = [one.entry for one in made if (one.score, one.reason) == (score, reason)]
        names = ", ".join(dict.fromkeys(f"{entry.method.label} on {entry.suite_task.label}" for entry in own))
        lines += words.notes(f"Missing, {SCORES[score]}: {names} ({reason})", 2)
    return lines


def _panel(axes: Axes, chosen: list[Attack], looks: dict[Line, Look]) -> None:
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    drawn = [one for one in chosen if one.seeds]
    if not drawn:
        canvas.no_results(axes)
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.grid(True, which="major", axis="both")
    low = max(LOWEST, min(1 / one.seeds[0].others for one in drawn))
    axes.set_xlim(low, 1)
    axes.set_ylim(low, 1.12)
    axes.plot([low, 1], [low, 1], color=canvas.GREY, linestyle=(0, (1, 1.5)), linewidth=0.9, zorder=1)
    for bound in _bounds(drawn).values():
        _forbidden(axes, bound, low)
    for number, one in enumerate(drawn):
        style = looks[line_of(one.entry)]
        kept = one.seeds[0].others * GRID >= 1
        tpr = np.where(one.mean_tpr[kept] > 0, one.mean_tpr[kept], np.nan)
        shape: dict[str, Any] = {"marker": style.marker, "markeredgecolor": "white", "markeredgewidth": 0.5}
        places = (number * MARKS // len(drawn), MARKS)  # marks of curves that coincide are side by side
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
    distinct: dict[str, Bound] = {}
    for one in drawn:
        if one.bound is not None and one.bound.tpr(np.array([LOWEST]))[0] < VISIBLE:
            times = "2 · " if budget_steps(one.entry.cell) == 2 else ""
            distinct.setdefault(f"{times}{epsilon(one.outcome.eps_rigorous)}", one.bound)
    return dict(sorted(distinct.items(), key=lambda item: item[1].epsilon))


def _forbidden(axes: Axes, bound: Bound, low: float) -> None:
    fpr = np.geomspace(low, 1.0, 400)
    allowed = bound.tpr(fpr)
    axes.fill_between(fpr, allowed, 1.0, color=FORBIDDEN, alpha=0.16, linewidth=0, zorder=0)
    axes.plot(fpr, allowed, color=FORBIDDEN, linewidth=0.8, zorder=1)
