"""How the cost of a private step grows: one quantity at a time, the others at a base setting."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from dpgraph.benchmarks.steps import StepSetting, interleaved, make_steps, synthetic_graph
from dpgraph.data.graph import Graph
from dpgraph.files import atomic_path
from dpgraph.progress import progress
from dpgraph.training.memory import keep_freed_memory
from dpgraph.training.steps import Step

BASE = StepSetting("gcn", 1, 7, 2_000)
NODES, WIDTH, CLASSES = 40_000, 256, 40
STEPS = ("plain", "private", "residual")
COLUMNS = ("quantity", "value", "step", "cpu_ms", "exponent")


@dataclass(frozen=True)
class Varied:
    """A quantity, its values, and what a value means: a graph of so many nodes or classes, a setting, a width."""

    values: Sequence[int]
    nodes: bool = False
    classes: bool = False
    width: bool = False
    field: Literal["max_degree", "batch_size"] | None = None  # of the setting


VARIED = {
    "nodes": Varied((10_000, 20_000, 40_000, 80_000, 160_000), nodes=True),
    "classes": Varied((10, 20, 40, 80, 160), classes=True),
    "width": Varied((32, 64, 128, 256, 512), width=True),
    "max_degree": Varied((1, 2, 4, 8, 16), field="max_degree"),
    "batch_size": Varied((100, 300, 1_000, 3_000, 10_000), field="batch_size"),
}


def bench(out: Path, repeats: int = 5, varied: dict[str, Varied] = VARIED, nodes: int = NODES) -> list[dict[str, Any]]:
    """Medians of interleaved CPU times on a CPU, as CSV, and a figure beside it; one row for each value and step.

    `exponent` is the slope of log time over log value, by least squares: 1 is linear.
    """
    keep_freed_memory()
    rows: list[dict[str, Any]] = []
    with progress("bench", sum(len(quantity.values) for quantity in varied.values())) as bar:
        base = synthetic_graph(nodes, CLASSES)
        for name, quantity in varied.items():
            rows += _fitted(name, _measured(quantity, base, repeats, bar.update))
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, out.with_suffix(".png"))
    return rows


Times = Iterator[tuple[int, dict[str, float]]]  # value, milliseconds of each step


def _measured(quantity: Varied, base: Graph, repeats: int, done: Callable[[], Any]) -> Times:
    for value in quantity.values:
        graph = base
        if quantity.nodes or quantity.classes:
            graph = synthetic_graph(value if quantity.nodes else base.num_nodes, value if quantity.classes else CLASSES)
        setting = BASE if quantity.field is None else replace(BASE, **{quantity.field: value})  # type: ignore[arg-type]
        steps = make_steps(graph, torch.device("cpu"), setting, value if quantity.width else WIDTH)
        yield value, _milliseconds({name: steps[name] for name in STEPS}, repeats)
        done()


def _milliseconds(steps: dict[str, Step], repeats: int) -> dict[str, float]:
    times = interleaved(steps, torch.device("cpu"), repeats)
    return {name: 1e3 * statistics.median(cpu for _, cpu in spent) for name, spent in times.items()}


def _fitted(name: str, times: Times) -> list[dict[str, Any]]:
    by_value = dict(times)
    rows: list[dict[str, Any]] = []
    for step in next(iter(by_value.values())):
        measured = {value: spent[step] for value, spent in by_value.items()}
        slope = float(np.polyfit(np.log(list(measured)), np.log(list(measured.values())), 1)[0])
        rows += (
            {"quantity": name, "value": value, "step": step, "cpu_ms": round(spent, 2), "exponent": round(slope, 2)}
            for value, spent in measured.items()
        )
    return rows


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """One panel for each quantity, both axes logarithmic, with the exponents in the legends."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    names = list(dict.fromkeys(row["quantity"] for row in rows))
    figure = Figure(figsize=(3.4 * 3, 2.9 * -(-len(names) // 3)), layout="constrained")
    for place, name in enumerate(names, start=1):
        axes = figure.add_subplot(-(-len(names) // 3), 3, place)
        own = [row for row in rows if row["quantity"] == name]
        for step in dict.fromkeys(row["step"] for row in own):
            points = [row for row in own if row["step"] == step]
            label = f"{step}, exponent {points[0]['exponent']:.2f}"
            axes.plot([row["value"] for row in points], [row["cpu_ms"] for row in points], marker="o", label=label)
        values = sorted({row["value"] for row in own})
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(values, [f"{value // 1000}k" if value >= 1000 else str(value) for value in values])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(name.replace("_", " "))
        axes.set_ylabel("CPU ms per step")
        axes.legend(fontsize=7, frameon=False)
    with atomic_path(out) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
