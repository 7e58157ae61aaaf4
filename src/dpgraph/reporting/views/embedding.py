"""Scatter plots of embeddings: a panel per task, method and target epsilon."""

import math
from dataclasses import dataclass
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import protection
from dpgraph.reporting.artefacts import EntryRun, described, described_rows, prepend_columns
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_classes
from dpgraph.reporting.formats import epsilon, significant
from dpgraph.reporting.results import EntryResult, Results
from dpgraph.reporting.stored import NO_EXPOSURE
from dpgraph.reporting.views.derived import EMBEDDING, EMBEDDING_PARTS, NOWHERE


@dataclass(frozen=True)
class Embedded(EntryRun):
    """Places (M, 2) and classes (M,) of one entry, without node ids; both are empty where `outcome` is not ok."""

    seed: int
    places: np.ndarray
    classes: np.ndarray


EMPTY = -1, NOWHERE, np.zeros(0, dtype=np.int64)


def embedded(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Embedded]:
    """Return the embedding of each entry of the artefact, in its order."""
    known = Results.of(results)
    return [_embedded(entry, known, outcome) for entry, outcome in known.outcomes(plan, artefact_id)]


def _embedded(entry: Entry, known: Results, outcome: EntryResult) -> Embedded:
    if not outcome.ok:
        return Embedded(entry, outcome, *EMPTY)
    parts = known.parts(entry, EMBEDDING)
    if not parts:
        return Embedded(entry, EntryResult.not_run(known.reason_of(entry, EMBEDDING) or NO_EXPOSURE), *EMPTY)
    x, y, classes = (parts[name].sort_values("class_id")["value"].to_numpy(float) for name in EMBEDDING_PARTS)
    return Embedded(entry, outcome, int(parts["x"]["seed"].iloc[0]), np.stack([x, y], axis=1), classes.astype(np.int64))


def embedding_points(made: list[Embedded]) -> pd.DataFrame:
    """Return a row per root with its place and class; an entry without roots has one empty row."""
    parts = []
    for one in made:
        rows = pd.DataFrame({"x": one.places[:, 0], "y": one.places[:, 1], "class_id": one.classes})
        if rows.empty:
            rows = pd.DataFrame({"x": [math.nan], "y": math.nan, "class_id": -1})
        parts.append(prepend_columns(described(one.entry, one.outcome) | {"seed": one.seed}, rows))
    return pd.concat(parts, ignore_index=True)


SIDE = 1.7  # inches of a panel, both ways, at most
AROUND = 0.5  # inches of its title
ACROSS = 4
LETTERS = 19  # letters of a title that an inch holds


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw a panel per task, method and target epsilon, one after the other."""
    made = embedded(plan, artefact_id, results)
    shown = [one for one in made if len(one.classes)]
    classes = sorted({int(name) for one in shown for name in np.unique(one.classes)})
    several = len({one.entry.task_id for one in shown}) > 1
    across = min(max(len(shown), 1), ACROSS)
    height = min(SIDE, canvas.WIDTH / across) + AROUND
    figure, places, width = canvas.panels([1] * max(len(shown), 1), _handles(classes), across, height)
    for (axes,), one in zip(places, shown):
        task = f"{one.entry.suite_task.label}: " if several else ""
        name = task + one.entry.method.label + (", demonstration" if plan.suite.demonstration else "")
        _panel(axes, one, classes, fill(name, max(int(width * LETTERS), 12)))
    return Drawn(figure, embedding_points(made), _caption(made))


def _handles(classes: list[int]) -> dict[str, Artist]:
    return {
        f"class {name}": Line2D([], [], color=look.colour, marker=look.marker, linestyle="", markersize=3.6)
        for name, look in looks_of_classes(classes).items()
    }


def _caption(made: list[Embedded]) -> list[str]:
    seeds = sorted({one.seed for one in made if len(one.classes)})
    counts = sorted({len(one.classes) for one in made if len(one.classes)})
    lines = []
    if seeds:
        span = f"{counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
        lines = [f"Training roots of seed {' or '.join(map(str, seeds))}, {span} in a panel. Class ids as in the data."]
    empty = [one for one in made if not len(one.classes)]
    lines += words.not_drawn(f"{one.entry.suite_task.label}, {one.entry.method.label}" for one in empty)
    return lines + words.guarantees(described_rows(made).assign(source="ours"))


def _panel(axes: Axes, one: Embedded, classes: list[int], name: str) -> None:
    entry = one.entry
    title = "no privacy" if entry.cell.privacy is None else "one budget"
    if entry.target_epsilon is not None:
        title = f"target ε\xa0=\xa0{significant(entry.target_epsilon)}"
    if entry.cell.privacy is not None and one.outcome.ok:
        own = one.outcome.guarantee
        title += f"\nclaimed {epsilon(own.published.epsilon)}, proved {epsilon(own.rigorous.epsilon)}"
        title += protection.mark(one.outcome.privacy)
    axes.set_title(f"{name}\n{title}", fontsize=6.5, fontweight="normal")
    axes.set_xlabel("t-SNE 1", fontsize=6.5)
    axes.set_ylabel("t-SNE 2", fontsize=6.5)
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_box_aspect(1)
    for class_id, look in looks_of_classes(classes).items():
        own = one.places[one.classes == class_id]
        axes.scatter(own[:, 0], own[:, 1], s=7, c=look.colour, marker=look.marker, linewidths=0.2, edgecolors="white")
