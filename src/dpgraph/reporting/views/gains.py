"""Figures of gains over a reference, written at the mean degree and homophily of each graph."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from dpgraph.engine.methods.looks import BLUE, GREY, VERMILION, Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import described
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.epsilon_axis import set_ticks
from dpgraph.reporting.formats import significant
from dpgraph.reporting.results import EntryResult, Results, graph_facts

NO_GRAPH = "no statistics of the graph"


def gain_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per entry, with the gain over the reference in points.

    `mean` is the mean over seeds of the entry's value minus the reference's, on the same graph, seed and target
    epsilon; it is nan for the reference itself. A reference without privacy serves every target. `ci_low` and `ci_high`
    are the 95 % interval.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    references = {(one.task_id, one.target_epsilon): one for one in entries if one.method_id == artefact.reference}
    rows = []
    for entry in entries:
        outcome, own = known.outcome(entry, artefact.metric), entry.method_id == artefact.reference
        row: dict[str, Any] = described(entry, outcome) | {"source": "ours"}
        facts = graph_facts(results, entry.cell.task)
        row |= {name: facts.get(name, math.nan) for name in ("mean_degree", "homophily")}
        if not own:
            over = references.get((entry.task_id, entry.target_epsilon)) or references.get((entry.task_id, None))
            row |= _gain(outcome, MISSING if over is None else known.outcome(over, artefact.metric))
        if row["status"] == "ok" and math.isnan(row["mean_degree"]):
            row |= {"status": "not run", "reason": NO_GRAPH}
        rows.append({"mean": math.nan, "ci_low": math.nan, "ci_high": math.nan} | row)
    return pd.DataFrame(rows)


MISSING = EntryResult.not_run("no reference at this epsilon")


def _gain(outcome: EntryResult, reference: EntryResult) -> dict[str, Any]:
    """Return the gain over the common seeds."""
    worse = next((one for one in (outcome, reference) if not one.ok), None)
    if worse is not None:
        return {"n": 0, "status": worse.status, "reason": worse.reason}
    found = outcome.minus(reference)
    return {"n": found.n, "mean": found.mean, "ci_low": found.low, "ci_high": found.high}


# by the sign that the whole interval has
LOOKS = {1: Look(BLUE, "o", "-"), -1: Look(VERMILION, "v", "-"), 0: Look(GREY, "s", "-")}
TEXTS = {1: "more accurate", -1: "less accurate", 0: "no significant difference"}
MARGIN = 0.16  # share of the axis outside the outermost graphs, where numbers are
UNDER, ABOVE = 0.1, 0.2  # of homophily
OFFSET = (0.0, 4.5)  # points of 1/72 inch between a mark and its number
DEFAULT_RATIO = 2.0  # of the axis, where all graphs have one degree


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw a panel per method and target epsilon, a mark per graph."""
    points = gain_points(plan, artefact_id, results)
    artefact = plan.artefacts[artefact_id]
    own = points[points["method"] != artefact.reference]
    placed = own["mean"].notna() & own["mean_degree"].gt(0) & own["homophily"].notna()
    by_panel = own[placed].groupby(["label", "epsilon_target"], sort=False, dropna=False)
    shown = {_title(own, *panel): rows for panel, rows in by_panel}
    empty = [title for one in zip(own["label"], own["epsilon_target"]) if (title := _title(own, *one)) not in shown]
    signs = {sign for rows in shown.values() for sign in _signs(rows)}
    handles: dict[str, Artist] = {TEXTS[sign]: marks.sample(LOOKS[sign], line=False) for sign in LOOKS if sign in signs}
    titles = [f"{title}: gain in points" for title in shown]
    x, y = "mean degree (neighbours of a node)", "homophily (share of edges that join equal labels)"
    figure, grid, _ = canvas.panelled(titles, handles, plan.suite.demonstration, x, y)
    for axes, rows in zip(grid, shown.values()):
        _panel(axes, rows)
    return Drawn(figure, points, _caption(plan, artefact_id, points, empty))


def _title(own: pd.DataFrame, label: str, target: float) -> str:
    name = [label] if own["label"].nunique() > 1 or math.isnan(target) else []
    return ", ".join([*name, *([] if math.isnan(target) else [f"ε\xa0=\xa0{significant(target)}"])])


def _signs(rows: pd.DataFrame) -> np.ndarray:
    """Return 1 or -1 where the interval is on one side of 0; 0 elsewhere, and for one seed."""
    return (rows["ci_low"].gt(0).astype(int) - rows["ci_high"].lt(0).astype(int)).to_numpy()


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    degrees, agreed, signs = rows["mean_degree"].to_numpy(float), rows["homophily"].to_numpy(float), _signs(rows)
    axes.set_xscale("log")
    low, high = np.log(degrees.min()), np.log(degrees.max())
    beyond = MARGIN / (1 - 2 * MARGIN) * (high - low) or math.log(DEFAULT_RATIO)
    axes.set_xlim(math.exp(low - beyond), math.exp(high + beyond))
    axes.set_ylim(agreed.min() - UNDER, agreed.max() + ABOVE)
    for sign, look in LOOKS.items():
        own = signs == sign
        if own.any():
            axes.plot(degrees[own], agreed[own], linestyle="", color=look.colour, clip_on=False, **marks.marked(look))
    for degree, share, gain in zip(degrees, agreed, rows["mean"]):
        axes.annotate(
            f"{gain:+.1f}".replace("-", "−"), (degree, share), OFFSET, textcoords="offset points", fontsize=7,
            ha="center", va="bottom",
        )  # fmt: skip
    inches = float(axes.get_position().width * axes.get_figure().get_figwidth())  # type: ignore[union-attr]
    texts = {float(np.median(group)): significant(float(np.median(group))) for group in _levels(degrees)}
    reach = high - low + 2 * beyond
    set_ticks(axes, texts, {at: inches * (math.log(at) - low + beyond) / reach for at in texts})


def _levels(values: np.ndarray) -> list[np.ndarray]:
    """Return values in groups less than a fifth apart, such as graphs that were made alike."""
    ordered = np.sort(values)
    return np.split(ordered, np.flatnonzero(ordered[1:] / ordered[:-1] > 1.2) + 1)


def _caption(plan: Plan, artefact_id: str, points: pd.DataFrame, empty: list[str]) -> list[str]:
    artefact = plan.artefacts[artefact_id]
    own = points[points["method"] != artefact.reference]
    seeds = sorted(own.loc[own["n"] > 0, "n"].astype(int).unique())
    over = plan.experiments[artefact_id.split("/")[0]].methods[str(artefact.reference)].label
    marked = f"Marks: the side of 0 of the 95 % confidence interval over {' or '.join(map(str, seeds))} seeds."
    marked = "One seed each, so no interval." if seeds == [1] else marked
    return [
        f"Numbers: test accuracy of {', '.join(dict.fromkeys(own['label']))} minus that of {over.lower()} at the same "
        "ε, in points, averaged over seeds. A mark for each graph, at its mean degree and homophily (share of edges "
        "between labelled nodes that join equal labels).",
        *([marked] if seeds else []),
        *filter(None, [artefact.caption]),
        *words.not_drawn(empty),
        *splits.fixed(plan, artefact_id),
        *words.guarantees(points),
    ]
