"""Figures: test accuracy against the privacy budget, as PDF, SVG and PNG with the same bytes on every run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten, wrap
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
from dpgraph.reporting.formats import metric, power_of_ten, significant
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
LEGEND_LINE = 0.145  # inches
NOTE_LINES = 3


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
        lines = sum(2 if "\n" in label else 1 for label in dict.fromkeys(labels.values()))
        legend_height = LEGEND_LINE * (math.ceil(lines / across) + 3)
        incomplete = ((points["source"] == "ours") & (points["status"] != "ok")).any()
        panel_height = PANEL[1] + (LEGEND_LINE * NOTE_LINES if incomplete else 0.0)
        figure = Figure(figsize=(PANEL[0] * across, panel_height * down + legend_height), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        handles: dict[str, Line2D] = {}
        for axes, (task_id, (task, _)) in zip(grid, tasks.items()):
            _panel(axes, points[points["task"] == task_id], looks, labels, handles)
            axes.set_title(task.label, loc="left")
            axes.set_ylabel(metric(plan.artefacts[artefact_id].metric))
        for axes in grid[len(tasks) :]:
            axes.set_axis_off()
        if plan.suite.demonstration:
            for axes in grid[: len(tasks)]:
                axes.set_title("demonstration", loc="right", color="#6B6B6B", fontweight="normal", fontsize=7)
        if handles:
            names = [name for name in dict.fromkeys(labels.values()) if name in handles]
            legend = figure.legend(
                [handles[name] for name in names],
                names,
                loc="outside lower left",
                ncols=across,
                handlelength=2.6,
                title=_uncertainty(points),
                alignment="left",
            )
            legend.get_title().set_color("#555555")
        return [_saved(figure, stem, suffix) for suffix in METADATA]


def _uncertainty(points: pd.DataFrame) -> str:
    seeds = sorted(points.loc[(points["source"] == "ours") & (points["n"] > 0), "n"].astype(int).unique())
    over = "" if not seeds else f" over {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "") + " seeds"
    text = f"Shaded: 95 % confidence interval of the mean{over}."
    return text + "\nHollow: printed in the paper, ± its std." if (points["source"] != "ours").any() else text


def _saved(figure: Figure, stem: Path, suffix: str) -> Path:
    path = stem.with_name(f"{stem.name}.{suffix}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, metadata=METADATA[suffix])
    return path


def _labels(points: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Legend text by (method, source): a published epsilon never without what is proved of it."""
    labels: dict[tuple[str, str], str] = {}
    for (method, source), rows in points.groupby(["method", "source"], sort=False):
        label = str(rows["label"].iloc[0])
        private = rows["epsilon_kind"].iloc[0] == "published"
        if source != "ours":
            label = f"{label.split(', ')[0]}, {source}"
        if private:
            proved = rows["eps_rigorous"].dropna()
            text = f"{significant(proved.min())} to {significant(proved.max())}" if len(proved) else "none"
            label = f"{label}\npublished ε; rigorous ε: {text}"
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
    axes.margins(y=0.09)
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
    """No privacy, so no place on the x axis: a line across, or for a printed number a mark on the right edge."""
    if not ours:
        std = 0.0 if math.isnan(row["std"]) else float(row["std"])
        return _hollow(axes, [1.0], [float(row["mean"])], [std], style, transform=axes.get_yaxis_transform())
    if not math.isnan(row["ci_low"]):
        axes.axhspan(row["ci_low"], row["ci_high"], color=style.colour, alpha=0.13, linewidth=0)
    return axes.axhline(row["mean"], color=style.colour, linestyle=style.line, linewidth=1.2)


def _curve(axes: Axes, rows: pd.DataFrame, style: Look, ours: bool) -> Line2D:
    x, y = rows["epsilon"].to_numpy(float), rows["mean"].to_numpy(float)
    if not ours:
        return _hollow(axes, x, y, rows["std"].fillna(0.0).to_numpy(float), style)
    low, high = rows["ci_low"].to_numpy(float), rows["ci_high"].to_numpy(float)
    axes.fill_between(x, low, high, color=style.colour, alpha=0.13, linewidth=0)
    look_of_points: dict[str, Any] = {"marker": style.marker, "markeredgecolor": "white", "markeredgewidth": 0.5}
    (line,) = axes.plot(x, y, color=style.colour, linestyle=style.line, zorder=3, **look_of_points)
    return line


def _hollow(axes: Axes, x: Any, y: Any, std: Any, style: Look, **options: Any) -> Line2D:
    bars = axes.errorbar(
        x,
        y,
        yerr=std,
        fmt=style.marker,
        color=style.colour,
        markerfacecolor="white",
        markersize=6.5,
        capsize=2,
        linewidth=0.9,
        zorder=4,
        clip_on=False,
        **options,
    )
    return bars.lines[0]


def _axes_text(axes: Axes, points: pd.DataFrame, finite: pd.DataFrame) -> None:
    deltas = sorted({power_of_ten(value) for value in points["delta"].dropna() if value > 0})
    axes.set_xlabel("privacy budget ε" + (f" (δ = {', '.join(deltas)})" if deltas else ""))
    if finite.empty:
        axes.set_xticks([], [])
        axes.set_xticks([], [], minor=True)
        return
    low, high = finite["epsilon"].min(), finite["epsilon"].max()
    axes.set_xlim(low / 1.18, high * 1.18)
    ticks = _apart([*points["epsilon_target"].dropna(), *finite.loc[finite["source"] != "ours", "epsilon"]])
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))


def _apart(values: list[float]) -> list[float]:
    """Ascending, without those whose labels would touch on a logarithmic axis.

    >>> _apart([12, 1, 2, 12.5, 4])
    [1, 2, 4, 12]
    """
    kept: list[float] = []
    for value in sorted(set(values)):
        if not kept or value > 1.2 * kept[-1]:
            kept.append(value)
    return kept


def _missing_note(axes: Axes, missing: pd.DataFrame, empty: bool) -> None:
    """Below the axis label, where no data can lie under it."""
    reasons = "; ".join(dict.fromkeys(f"{row.status}: {row.reason}" for row in missing.itertuples()))
    what = "no results" if empty else f"{len(missing)} of our points missing"
    lines = wrap(shorten(f"{what} ({reasons})", 52 * NOTE_LINES - 4, placeholder=" …)"), 52)
    axes.annotate(
        "\n".join(lines[:NOTE_LINES]),
        xy=(0, 0),
        xytext=(0, -33),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=7,
        color="#555555",
    )
    if empty:
        axes.set_yticks([])
