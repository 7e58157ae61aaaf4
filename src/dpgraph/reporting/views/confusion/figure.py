"""Heat maps of true against predicted classes, one per run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import described_rows
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.views.confusion.rows import Confusion, confusion_points, confusions

HEIGHT = 3.25  # inches
WRITTEN = 10  # classes up to which shares are written into the cells
COLOURS = LinearSegmentedColormap.from_list("confusion", ["#FFFFFF", "#9CC7E3", "#0072B2", "#08294A"])


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """Writes stem.pdf, stem.svg and stem.png: a panel per entry, rows add up to 100 % of a class's test nodes."""
    made = confusions(plan, artefact_id, results)
    seeds = sorted({len(one.shares) for one in made if one.shares.size})
    lines = [] if not seeds else [f"Mean over {' or '.join(map(str, seeds))} seeds. Class ids as in the data."]
    wide = min(len(made), canvas.ACROSS)
    about = words.caption(described_rows(made), wide) + words.notes(" ".join(splits.fixed(plan, artefact_id)), wide)
    with canvas.house_style(artefact_id):
        figure, grid = canvas.panels(len(made), canvas.Legend({}, [*lines, *about], 1), height=HEIGHT)
        for (axes,), one in zip(grid, made):
            _panel(axes, one, plan.suite.demonstration)
        scale = ScalarMappable(Normalize(0, 100), COLOURS)
        bar = figure.colorbar(
            scale, ax=[axes for (axes,) in grid], location="bottom", fraction=0.04, aspect=40, pad=0.02
        )
        bar.set_label("\n".join(["share of the true class’s test nodes (%). " + " ".join(lines), *about]))
        bar.outline.set_visible(False)  # type: ignore[operator]
        return canvas.save_all(figure, stem), confusion_points(made)


def _panel(axes: Axes, one: Confusion, demonstration: bool) -> None:
    entry = one.entry
    lines = [
        entry.suite_task.label + (" (demonstration)" if demonstration else ""),
        words.run_label(entry.method.label, entry.epsilon),
    ]
    if entry.cell.privacy is not None and one.outcome.ok:
        lines.append(words.budget(described_rows([one])))
    axes.set_title("\n".join(lines), loc="left", fontsize=7, fontweight="normal")
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if not one.shares.size:
        canvas.no_results(axes)
        return
    mean = one.mean[:, :-1]
    classes = len(mean)
    axes.imshow(np.nan_to_num(mean), cmap=COLOURS, vmin=0, vmax=100, interpolation="nearest", aspect="equal")
    axes.grid(False)
    axes.tick_params(length=0)
    step = max(1, math.ceil(classes / 9)) if classes > WRITTEN else 1
    axes.set_xticks(range(0, classes, step))
    axes.set_yticks(range(0, classes, step))
    if classes <= WRITTEN:
        for true, predicted in zip(*np.nonzero(np.nan_to_num(mean) >= 0.5)):
            share = mean[true, predicted]
            axes.text(
                predicted, true, f"{share:.0f}", ha="center", va="center", fontsize=6,
                color="white" if share > 45 else "#222222",
            )  # fmt: skip
