"""Figures: test accuracy against the privacy budget, as PDF, SVG and PNG with the same bytes on every run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import context
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dpgraph.experiments.plan import Plan
from dpgraph.files import atomic_path
from dpgraph.reporting.artefacts import artefact_of
from dpgraph.reporting.formats import power_of_ten, significant
from dpgraph.reporting.palette import Look, look
from dpgraph.reporting.privacy_utility import privacy_utility_points
from dpgraph.reporting.results import write_csv

STYLE = Path(__file__).with_name("style.mplstyle")
PANEL = (3.3, 2.5)  # inches: a column of a two-column page
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "ModDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
TICKS = (0.1, 0.2, 0.5, 1, 2, 4, 8, 12, 16, 32, 64, 128)


@contextmanager
def _house_style(salt: str) -> Iterator[None]:
    with context(STYLE, after_reset=True), matplotlib.rc_context({"svg.hashsalt": salt}):
        yield


def write_figure(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg, stem.png and stem.csv (the plotted points).

    Raises UserError where the artefact is no figure of the plan.
    """
    artefact_of(plan, artefact_id, "figure")
    points = privacy_utility_points(plan, artefact_id, results)
    paths = privacy_utility_figure(plan, artefact_id, points, stem)
    table = stem.with_name(f"{stem.name}.csv")
    write_csv(points, table)
    return [*paths, table]


def privacy_utility_figure(plan: Plan, artefact_id: str, points: pd.DataFrame, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg and stem.png: a panel per task, lines with 95 % intervals, printed points hollow.

    Methods without privacy are horizontal lines. The paper's mechanism stands at its *published* epsilon, dashed, and
    its label says what is proved.
    """
    tasks = plan.tasks_of(artefact_id)
    looks = {entry.method_id: look(entry.cell) for entry in plan.entries_of(artefact_id)}
    across = min(len(tasks), 2)
    down = math.ceil(len(tasks) / across)
    with _house_style(artefact_id):
        labels = _labels(points)
        legend_columns = 1 if across == 1 else 2
        legend_height = 0.16 * math.ceil(len(labels) / legend_columns) + 0.15
        size = (PANEL[0] * across, PANEL[1] * down + legend_height)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        handles: dict[str, Line2D] = {}
        for axes, (task_id, (task, _)) in zip(grid, tasks.items()):
            _panel(axes, points[points["task"] == task_id], looks, labels, handles)
            axes.set_title(task.label, loc="left")
        for axes in grid[len(tasks) :]:
            axes.set_axis_off()
        if plan.suite.demonstration:
            for axes in grid[: len(tasks)]:
                axes.set_title("demonstration", loc="right", color="#6B6B6B", fontweight="normal", fontsize=7)
        if handles:
            figure.legend(
                [handles[name] for name in labels.values() if name in handles],
                [name for name in labels.values() if name in handles],
                loc="outside lower left",
                ncols=legend_columns,
                handlelength=2.6,
            )
        return [_saved(figure, stem, suffix) for suffix in METADATA]


def _saved(figure: Figure, stem: Path, suffix: str) -> Path:
    path = stem.with_name(f"{stem.name}.{suffix}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, metadata=METADATA[suffix])
    return path


def _labels(points: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Legend text by (method, source): the paper's mechanism never without what is proved of it."""
    labels: dict[tuple[str, str], str] = {}
    for (method, source), rows in points.groupby(["method", "source"], sort=False):
        label = str(rows["label"].iloc[0])
        kind = rows["epsilon_kind"].iloc[0]
        if source != "ours":
            proved = "" if kind == "none" else " (rigorous ε: none)"
            label = f"{label.split(', ')[0]}, printed in the {source.replace('paper, ', 'paper, ')}{proved}"
        elif kind == "published":
            proved = rows["eps_rigorous"].dropna()
            text = f"{significant(proved.min())} to {significant(proved.max())}" if len(proved) else "none"
            label = f"{label} (published ε; rigorous: {text})"
        labels[str(method), str(source)] = label
    return labels


def _panel(
    axes: Axes,
    points: pd.DataFrame,
    looks: dict[str, Look],
    labels: dict[tuple[str, str], str],
    handles: dict[str, Line2D],
) -> None:
    drawn = points[points["mean"].notna() & points["epsilon"].notna()]
    finite = drawn[drawn["epsilon"].map(math.isfinite)]
    axes.set_xscale("log")
    for (method, source), rows in drawn.groupby(["method", "source"], sort=False):
        name, style = labels[str(method), str(source)], looks[str(method)]
        if (rows["epsilon_kind"] == "none").all():
            line = _horizontal(axes, rows.iloc[0], style, source == "ours")
        else:
            line = _curve(axes, rows.sort_values("epsilon"), style, source == "ours")
        handles.setdefault(name, line)
    _axes_text(axes, points, finite)
    missing = points[(points["source"] == "ours") & (points["status"] != "ok")]
    if not missing.empty:
        _missing_note(axes, missing, drawn.empty)


def _horizontal(axes: Axes, row: pd.Series, style: Look, ours: bool) -> Line2D:
    line = axes.axhline(row["mean"], color=style.colour, linestyle=style.line if ours else (0, (1, 3)), linewidth=1.1)
    if ours and not math.isnan(row["ci_low"]):
        axes.axhspan(row["ci_low"], row["ci_high"], color=style.colour, alpha=0.13, linewidth=0)
    return line


def _curve(axes: Axes, rows: pd.DataFrame, style: Look, ours: bool) -> Line2D:
    x, y = rows["epsilon"].to_numpy(float), rows["mean"].to_numpy(float)
    if not ours:
        bars = axes.errorbar(
            x,
            y,
            yerr=rows["std"].fillna(0.0).to_numpy(float),
            fmt="D",
            color=style.colour,
            markerfacecolor="white",
            markersize=5,
            capsize=2,
            linewidth=0.9,
            zorder=4,
        )
        bars.lines[0].set_label("_")
        return bars.lines[0]
    low, high = rows["ci_low"].to_numpy(float), rows["ci_high"].to_numpy(float)
    axes.fill_between(x, low, high, color=style.colour, alpha=0.13, linewidth=0)
    (line,) = axes.plot(
        x, y, color=style.colour, linestyle=style.line, marker=style.marker, markeredgecolor="white",
        markeredgewidth=0.5, zorder=3,
    )  # fmt: skip
    return line


def _axes_text(axes: Axes, points: pd.DataFrame, finite: pd.DataFrame) -> None:
    deltas = sorted({power_of_ten(value) for value in points["delta"].dropna() if value > 0})
    axes.set_xlabel("privacy budget ε" + (f" (δ = {', '.join(deltas)})" if deltas else ""))
    axes.set_ylabel("test accuracy (%)")
    if finite.empty:
        axes.set_xticks([])
        return
    low, high = finite["epsilon"].min(), finite["epsilon"].max()
    axes.set_xlim(low / 1.18, high * 1.18)
    ticks = [tick for tick in TICKS if low / 1.15 <= tick <= high * 1.15]
    axes.xaxis.set_major_locator(FixedLocator(ticks or [low, high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))


def _missing_note(axes: Axes, missing: pd.DataFrame, empty: bool) -> None:
    reasons = "; ".join(dict.fromkeys(f"{row.status}: {row.reason}" for row in missing.itertuples()))
    text = f"{len(missing)} points missing\n({reasons})" if not empty else f"no results\n({reasons})"
    axes.text(0.98, 0.04, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=7, color="#555555")
