"""Tables and figures of membership inference: measures of both attacks, ROC curves, and bounds of the proved ε."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from dpgraph.engine.methods.looks import Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, formats, protection, splits
from dpgraph.reporting.artefacts import described_rows, heading
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, Table, Text
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.formats import epsilon, significant
from dpgraph.reporting.views.membership import attacks as membership_attacks
from dpgraph.reporting.views.membership.attacks import GRID, RATES, SCORES, Attack, Bound, attacks

MEASURES = {"auc": "AUC", "advantage": "Advantage"} | {
    f"tpr_at_{rate:g}": f"TPR at FPR {100 * rate:g} %" for rate in RATES
}
COLUMNS = ["Method", "Attack", "Target ε", *display.EPSILON_HEADS, "Seeds", *MEASURES.values()]
NO_BOUND = "no bound"
WHAT = (
    "Members: roots of training, redrawn for each seed; others: the other candidates. The attacks ask whether a node’s "
    "label had a loss; the guarantee also covers its features and edges. Loss threshold: Yeom et al. 2018; calibrated "
    "by the loss in seeds without the node: Watson et al. 2022."
)
BOUND = (
    "Bound: from the rigorous (ε, δ), for another node in a root’s place; from (2ε, (1 + e^ε) δ) where this takes two "
    "steps of the guarantee (features only, or a share of the nodes kept)."
)


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of membership attacks, a block per task, two rows per entry."""
    table = membership_attacks.membership_table(attacks(plan, artefact_id, results))
    notes = Footnotes()
    blocks = display.by_task(table, lambda row: _cells(row, notes), _title)
    remarks = [
        f"Mean ± sample standard deviation over the seeds, in brackets the bound. {BOUND}",
        WHAT + " Advantage: largest TPR − FPR, its threshold chosen in hindsight" + _by_chance(table),
        "Measurements share nodes and seeds, so the standard deviation is not that of independent runs.",
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    return MadeTable(table, Table(heading(plan, artefact_id), COLUMNS, blocks, notes.texts, remarks, text_columns=2))


def _title(part: pd.DataFrame) -> str:
    label = display.with_delta(str(part["task_label"].iloc[0]), part)
    sizes = part.loc[(part["score"] == "loss") & (part["members"] > 0), ["members", "others"]].drop_duplicates()
    if len(sizes) != 1:
        return label
    members, others = (formats.count(size) for size in sizes.iloc[0])
    return f"{label}: {members} members, {others} others"


def _by_chance(table: pd.DataFrame) -> str:
    chance = table["advantage_by_chance"].dropna()
    if chance.empty:
        return "."
    low, high = (f"{value:.3f}" for value in (chance.min(), chance.max()))
    return f", by chance about {low if low == high else f'{low} to {high}'}."


def _cells(row: dict, notes: Footnotes) -> list[Text]:
    measured = not math.isnan(row["auc_mean"])
    if measured:
        values = [Text(_measure(row, name)) for name in MEASURES]
    else:
        status = row if row["status"] != "ok" else row | {"status": "not available"}
        status = status | {"reason": status["reason"].removeprefix("not available: ")}
        values = [display.failure(status, notes), *[Text(DASH)] * (len(MEASURES) - 1)]
    seeds = Text(str(row["n"]) if measured else DASH)
    return [*display.head_cells(row, notes, Text(SCORES[row["score"]])), seeds, *values]


def _measure(row: dict, name: str) -> str:
    bound = row[f"{name}_bound"]
    # a bound is never shown better than it is
    text = NO_BOUND if math.isnan(bound) else f"≤ {min(1.0, math.ceil(1e3 * bound - 1e-9) / 1e3):.3f}"
    return f"{formats.mean_std(row[f'{name}_mean'], row[f'{name}_std'], 3)} ({text})"


FEWEST = 10  # others of a seed below the lowest FPR: the TPR at fewer rests on single records
VISIBLE = 0.95  # TPR that a bound allows at the lowest FPR; a higher one coincides with the upper edge
MARKS = 20  # points of a curve between two marks
HEIGHT = 2.5  # inches


# a title, and attacks by one score on the runs of a task at one target epsilon, and on those without privacy
Panel = tuple[str, list[Attack]]


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw a row per task and target epsilon, a panel per attack.

    Curves are mean TPR over seeds at fixed FPR, from the FPR of `FEWEST` others on. Rates that the bound of a run of
    the panel excludes are shaded in its colour.
    """
    made = attacks(plan, artefact_id, results)
    looks = looks_of_methods(plan.entries_of(artefact_id))
    chosen = _chosen(made)
    handles: dict[str, Artist] = {
        words.label(one.entry.method.label): marks.sample(looks[one.entry.method_id]) for one in made
    }
    for one in (one for _, drawn in chosen for one in _visible(drawn)):
        colour, name = looks[one.entry.method_id].colour, words.label(f"excluded for {one.entry.method.label}")
        handles[name] = Patch(facecolor=colour, alpha=SHADE, linewidth=0)
    handles["guessing"] = Line2D([], [], **GUESSING)
    figure, grid, _ = canvas.panelled(
        [title for title, _ in chosen], handles, plan.suite.demonstration,
        "false positive rate", "true positive rate", height=HEIGHT,
    )  # fmt: skip
    for axes, (_, drawn) in zip(grid, chosen):
        _panel(axes, drawn, looks)
    return Drawn(
        figure, membership_attacks.membership_points(made), [*_caption(made, chosen), *splits.fixed(plan, artefact_id)]
    )


SHADE = 0.2
GUESSING: dict[str, Any] = {"color": canvas.GREY, "linestyle": (0, (1, 1.5)), "linewidth": 0.9}


def _chosen(made: list[Attack]) -> list[Panel]:
    """Return the panels with results; with one target, titles do not name it."""
    panels: list[Panel] = []
    for task in dict.fromkeys(one.entry.task_id for one in made):
        of_task = [one for one in made if one.entry.task_id == task]
        targets = sorted({one.entry.target_epsilon for one in of_task if one.entry.target_epsilon is not None})
        for target in (*targets,) or (None,):
            measured = [one for one in of_task if one.seeds and one.entry.target_epsilon in (None, target)]
            for score, name in SCORES.items():
                own = [one for one in measured if one.score == score]
                at = f", ε\xa0=\xa0{significant(target)}" if target is not None and len(targets) > 1 else ""
                if any(one.entry.target_epsilon == target for one in own):
                    panels.append((f"{own[0].entry.suite_task.label}{at}: {name}", own))
    return panels


def _caption(made: list[Attack], chosen: list[Panel]) -> list[str]:
    seeds = sorted({len(one.seeds) for one in made if one.seeds})
    over = f" over {' or '.join(map(str, seeds))} seeds" if seeds else ""
    rows = described_rows(made)
    lines = [
        f"Mean TPR{over} at fixed FPR, from the FPR of {FEWEST} others of a seed on: below it a few records decide.",
        WHAT, *words.methods_budgets(rows), *_elsewhere(chosen), *protection.caption(rows),
    ]  # fmt: skip
    limits = dict.fromkeys(_limit(one) for _, drawn in chosen for one in _visible(drawn))
    if limits:
        shaded = f"Shaded in a method’s colour: what its own proved ε (node-null) excludes: {'; '.join(limits)}. "
        lines += [f"{shaded}It binds no other method; larger ε allow all that is drawn.", BOUND]
    elif any(one.bound is not None for one in made):
        lines.append("No area is shaded, since the proved ε of all runs allow all that is drawn.")
    missing = dict.fromkeys((one.score, one.reason) for one in made if not one.seeds)
    for score, reason in missing:
        own = [one.entry for one in made if (one.score, one.reason) == (score, reason)]
        names = ", ".join(dict.fromkeys(f"{entry.method.label} on {entry.suite_task.label}" for entry in own))
        lines.append(f"Missing, {SCORES[score]}: {names} ({reason}).")
    return lines


def _elsewhere(chosen: list[Panel]) -> list[str]:
    """Return sentences on private methods that have results at some targets only."""
    runs = (one.entry for _, drawn in chosen for one in drawn)
    pairs = dict.fromkeys((run.method.label, run.target_epsilon) for run in runs if run.target_epsilon is not None)
    most = max(Counter(label for label, _ in pairs).values(), default=0)
    where = {label: [significant(at) for name, at in pairs if name == label] for label, _ in pairs}
    some = {label: " and ".join(own) for label, own in where.items() if len(own) < most}
    return [f"{label}: run at ε = {own} only, so without a curve elsewhere." for label, own in some.items()]


def _panel(axes: Axes, drawn: list[Attack], looks: Mapping[str, Look]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.grid(True, which="major", axis="both")
    low = _lowest(drawn)
    axes.set_xlim(low, 1)
    axes.set_ylim(min(low, *(1 / sum(seed.members for seed in one.seeds) for one in drawn)), 1.12)
    axes.plot([low, 1], [low, 1], **GUESSING, zorder=1)
    for one in _visible(drawn):
        if one.bound is not None:
            _forbidden(axes, one.bound, low, looks[one.entry.method_id].colour)
    for number, one in enumerate(drawn):
        style = looks[one.entry.method_id]
        kept = low <= GRID
        tpr = np.where(one.mean_tpr[kept] > 0, one.mean_tpr[kept], np.nan)
        places = (number * MARKS // len(drawn), MARKS)  # marks of curves that coincide are side by side
        axes.plot(
            GRID[kept], tpr, color=style.colour, linestyle=style.line, linewidth=1.1, zorder=3, markevery=places,
            **marks.marked(style),
        )  # fmt: skip


def _lowest(drawn: list[Attack]) -> float:
    return min(FEWEST / seed.others for one in drawn for seed in one.seeds)


def _visible(drawn: list[Attack]) -> list[Attack]:
    """Return the attacks whose bound excludes visible rates."""
    low = np.array([_lowest(drawn)])
    return [one for one in drawn if one.bound is not None and one.bound.tpr(low)[0] < VISIBLE]


def _limit(one: Attack) -> str:
    times = "2 · " if membership_attacks.budget_steps(one.entry.cell) == 2 else ""
    return f"{one.entry.method.label} {times}{epsilon(one.outcome.guarantee.rigorous.epsilon)}"


def _forbidden(axes: Axes, bound: Bound, low: float, colour: str) -> None:
    fpr = np.geomspace(low, 1.0, 400)
    allowed = bound.tpr(fpr)
    axes.fill_between(fpr, allowed, 1.12, color=colour, alpha=SHADE, linewidth=0, zorder=0)
    axes.plot(fpr, allowed, color=colour, linewidth=0.8, zorder=1)
