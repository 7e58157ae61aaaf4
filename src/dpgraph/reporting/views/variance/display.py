"""Tables and figures of variance components: every run as a dot, and shares of the variance as bars."""

import math
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from dpgraph.engine.methods.looks import BLUE, ORANGE, Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import Footnotes, MadeTable, Table, Text
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import GREY, Drawn
from dpgraph.reporting.drawing.palette import looks_of_values
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.variance import components

SHOWN_PAIRS = 5  # one of `rows.PAIRS`; the CSV file has all of them
HEADS = ("splits", "initialisations", "rest")  # of PARTS
ERROR_HEADS = {
    "pairs": f"Error of {SHOWN_PAIRS} pairs",
    "stated": f"Stated by {SHOWN_PAIRS} on one split",
    "one_split": f"Error of {SHOWN_PAIRS} on one split",
}


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of variance components, a block per task."""
    table, shown = components.variance_table(plan, artefact_id, results), quantity(plan.artefacts[artefact_id].metric)
    notes = Footnotes()
    of_parts = [*(f"Std of {head}" for head in HEADS), *(f"Share of {head} (%)" for head in HEADS)]
    columns = ["Method", "Target ε", shown.label[0].upper() + shown.label[1:], "Splits × init.", *of_parts]
    columns += [*ERROR_HEADS.values(), *display.EPSILON_HEADS]
    remarks = [
        "Every split is trained with every initialisation. Value: mean ± its standard error for new splits and "
        "initialisations. Std and errors are in points, in brackets their 95 % interval; shares are of the variance.",
        "Initialisations: initial parameters, dropout masks and public keys of samplers, the same on every split. "
        "Rest: batches and, with privacy, noise, which each run draws anew, and the interaction of split and "
        "initialisation.",
        f"Errors: standard errors of a mean. {SHOWN_PAIRS} pairs: each run has its own split and initialisation, as "
        "seeds have wherever splits are random. On one split: the error that such runs state, and the error of their "
        "mean as an estimate for any split.",
        "Two-way random effects with normal parts; estimates from mean squares, 0 where those are negative; "
        "generalised confidence intervals. An interval from 0 to 0 means that the mean square is below most that the "
        "rest alone gives; this happens by chance and does not prove 0. Splits are random splits of one graph: another "
        "graph may differ.",
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    blocks = display.by_task(table, lambda row: _cells(row, notes))
    return MadeTable(table, Table(heading(plan, artefact_id), columns, blocks, notes.texts, remarks))


def _cells(row: dict, notes: Footnotes) -> list[Text]:
    head = [Text(row["label"]), display.target_cell(row)]
    if row["status"] != "ok":
        empty = [Text(DASH)] * (4 + 2 * len(components.PARTS))
        return [*head, display.failure(row, notes), *empty, *display.epsilon_cells(row, notes)]
    some = (notes.number(row["reason"]),) if row["reason"] else ()
    return [
        *head,
        Text(formats.mean_std(row["mean"], row["mean_error"])),
        Text(f"{int(row['splits'])} × {int(row['initialisations'])}", some),
        *(_with_interval(row, f"sd_{part}", 2) for part in components.PARTS),
        *(_with_interval(row, f"share_{part}", 0) for part in components.PARTS),
        *(_with_interval(row, f"se_{name}_{SHOWN_PAIRS}", 2) for name in ERROR_HEADS),
        *display.epsilon_cells(row, notes),
    ]


def _with_interval(row: dict, name: str, decimals: int) -> Text:
    if math.isnan(row[name]):
        return Text(DASH)
    value, low, high = (f"{row[key]:.{decimals}f}" for key in (name, f"{name}_low", f"{name}_high"))
    return Text(f"{value} ({low} to {high})")


BAND = 0.62  # inches of a method
AROUND = 0.85  # inches of a panel's title and axis
FILLED = 0.7  # of a band, by the rows of its splits
SMALLEST_TEXT = 9  # percent; a smaller bar is too short for its number
COLOURS = {"split": BLUE, "initialisation": ORANGE, "rest": "#BDBDBD"}
TEXTS = {"split": "between splits", "initialisation": "between initialisations", "rest": "rest"}
REMARK = (
    "Left: a mark for each run, a row for each split, a colour and marker for each initialisation; tick: mean of the "
    "split. Right: shares of the variance; rest: batches, noise and interaction; line: 95 % confidence interval of the "
    "share of splits."
)


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw, for each task, the runs on the left and the shares on the right."""
    runs = components.crossed(plan, artefact_id, results)
    points = components.variance_points(runs)
    tasks = plan.tasks_of(artefact_id)
    named = sorted(points["initialisation"].dropna().astype(int).unique())
    looks = {int(name): look for name, look in looks_of_values([str(name) for name in named]).items()}
    first = points.drop_duplicates(["task", "method", "epsilon_target"])
    drawn = {task_id: [one for one in runs if one.entry.task_id == task_id] for task_id in tasks}
    drawn = {task: own for task, own in drawn.items() if any(one.components is not None for one in own)}
    heights = [AROUND + BAND * len(own) for own in drawn.values()] or [AROUND + BAND]
    handles: dict[str, Artist] = {TEXTS[part]: Patch(facecolor=COLOURS[part], linewidth=0) for part in components.PARTS}
    figure, grid, width = canvas.panels([1] * 2 * len(heights), handles if drawn else {}, heights=heights)
    for index, (task_id, own) in enumerate(drawn.items()):
        (dots,), (bars,) = grid[2 * index], grid[2 * index + 1]
        canvas.panel_title(dots, tasks[task_id][0].label, plan.suite.demonstration, width)
        canvas.panel_title(bars, "Shares of the variance", plan.suite.demonstration, width)
        metric = quantity(plan.artefacts[artefact_id].metric).label.removesuffix(" (%)")
        dots.set_xlabel(f"{metric}, run minus mean (points)")
        bars.set_xlabel("share of the variance (%)")
        for place, one in enumerate(own):
            _dots(dots, place, one, looks)
            _bars(bars, place, one)
        _bands(dots, own)
        _bands(bars, own, named=False)
        bars.set_xlim(0, 100)
    if not drawn:
        grid[1][0].set_axis_off()
    empty = [task.label for task_id, (task, _) in tasks.items() if task_id not in drawn]
    known = [one.components for own in drawn.values() for one in own if one.components is not None]
    sizes = dict.fromkeys(f"{one.splits} splits × {one.initialisations} initialisations" for one in known)
    about = [f"{' or '.join(sizes)}. {REMARK}"] if drawn else []
    return Drawn(figure, points, [*about, *words.not_drawn(empty), *words.guarantees(first)])


def _bands(axes: Axes, own: list[components.Crossed], named: bool = True) -> None:
    """Set a band for each method, the first one on top."""
    axes.set_ylim(len(own) - 0.5, -0.5)
    labels = [fill(words.run_label(one.entry.method.label, one.entry.target_epsilon), 20) for one in own]
    axes.set_yticks(range(len(own)), labels if named else [""] * len(own), fontsize=6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    for edge in range(1, len(own)):
        axes.axhline(edge - 0.5, color="#DDDDDD", linewidth=0.6, zorder=0)


def _dots(axes: Axes, place: int, one: components.Crossed, looks: dict[int, Look]) -> None:
    if one.components is None:
        axes.text(0.5, place, one.outcome.status, transform=axes.get_yaxis_transform(), ha="center", va="center",
                  color=GREY, fontsize=6)  # fmt: skip
        return
    deviations = one.values - one.components.mean
    height = np.linspace(-FILLED / 2, FILLED / 2, len(deviations)) + place
    axes.axvline(0, color="#DDDDDD", linewidth=0.6, zorder=0)
    for name in deviations:
        look = looks[int(name)]
        axes.plot(deviations[name], height, linestyle="", marker=look.marker, color=look.colour, markersize=3.2,
                  markeredgecolor="white", markeredgewidth=0.3, zorder=3)  # fmt: skip
    axes.plot(deviations.mean(axis=1), height, linestyle="", marker="|", color="black", markersize=6, zorder=4)


def _bars(axes: Axes, place: int, one: components.Crossed) -> None:
    if one.components is None:
        return
    left = 0.0
    for part in components.PARTS:
        share = components.share_of(one.components, part)
        if np.isnan(share.value):
            return
        axes.barh(place, share.value, 0.5, left=left, color=COLOURS[part], zorder=2)
        if share.value >= SMALLEST_TEXT:
            text = f"{share.value:.0f} %"
            axes.text(left + share.value / 2, place - 0.36, text, ha="center", va="center", fontsize=6)
        if part == "split":
            ends = [share.low, share.high]
            axes.plot(ends, [place] * 2, color="black", linewidth=0.9, marker="|", markersize=4, zorder=3)
        left += share.value
