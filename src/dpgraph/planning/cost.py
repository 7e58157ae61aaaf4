"""The cost of training, planned before there is data and corrected by what suites took.

The planner knows the registry's sizes and a cell's settings. Its seconds have three parts: what a start, a step and all
else cost. For each method three factors are fitted to what its cells took in the suites that were run
(workflow/throughputs.csv); one factor for all three would carry from small graphs to large ones what only starts and
steps cost. What a method's cells took beyond that on a data set, other cells on it are expected to take, too.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError
from tabulate import tabulate

from dpgraph.config.cell import Cell, Task
from dpgraph.config.suite import COMPUTE
from dpgraph.core.errors import UserError
from dpgraph.core.files import atomic_path
from dpgraph.engine.methods.cost import SECONDS_PER_STEP, SECONDS_TO_START, steps_of
from dpgraph.problems.registry import size_of

if TYPE_CHECKING:
    import pandas as pd

    from dpgraph.planning.plan import Plan
    from dpgraph.planning.run import Run

FILE = Path("throughputs.csv")  # in the workflow's folder
FARTHEST = 10.0  # the factor of a part is at most so many times that of all three, and at least so small a part of it
EDGES = (0.1, 0.9)  # quantiles of the cells' ratios of measured to planned seconds: `low` and `high`
ALL = "all, each cell once"


def memory_mb(task: Task) -> int:
    """Return what a job that trains or prepares the task's data needs: libraries, and the data with three copies."""
    return math.ceil(1500 + 4 * size_of(task).megabytes)


# --- planned ----------------------------------------------------------------------------------------------------------


class PlannedParts(NamedTuple):
    """Planned seconds of a cell on one CPU core, all seeds, by what they grow with."""

    starts: float  # the number of seeds
    steps: float  # the number of steps, whatever is in one
    work: float  # all else: data, network, evaluations

    @property
    def total(self) -> float:
        return sum(self)


def train_seconds(run: Run) -> float:
    """Return the planned seconds of all seeds on one CPU core."""
    return len(run.cell.seeds) * run.spec.seconds(run.cell, size_of(run.cell.task))


def parts_of(runs: Iterable[Run]) -> list[PlannedParts]:
    """Return the parts of cells that are trained in this order: shared work counts for the first that needs it."""
    done: set[Hashable] = set()
    found = []
    for run in runs:
        cell, total, shared = run.cell, train_seconds(run), run.spec.shared
        size = size_of(cell.task)
        for seed in cell.seeds if shared is not None else ():
            name, seconds = shared(cell, size, seed)  # type: ignore[misc]
            if name in done:
                total -= seconds
            done.add(name)
        starts = min(len(cell.seeds) * SECONDS_TO_START, total)
        steps = min(len(cell.seeds) * SECONDS_PER_STEP * steps_of(cell.training), total - starts)
        found.append(PlannedParts(starts, steps, total - starts - steps))
    return found


# --- measured ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Throughput:
    """Planned and measured seconds of one method's cells on a data set, in one suite and on one kind of device.

    Seconds are those of a CPU core with `device` cpu, on the clock with cuda. A tenth of the cells took less than `low`
    times the plan, a tenth more than `high` times.
    """

    method: str
    dataset: str
    device: str
    cells: int
    runs: int
    starts_s: float
    steps_s: float
    work_s: float
    measured_s: float
    low: float
    high: float
    suite: str
    commit: str
    processor: str

    @property
    def parts(self) -> PlannedParts:
        return PlannedParts(self.starts_s, self.steps_s, self.work_s)


def measured(plan: Plan, results: pd.DataFrame) -> list[Throughput]:
    """Return a row for each method, data set and device of cells whose seeds all ran on that device.

    Raises UserError where there is none.
    """
    found = []
    for device, column in (("cpu", "cpu_seconds"), ("cuda", "seconds")):
        good = results[(results["status"] == "ok") & (results["device"] == device)]
        spent = good.drop_duplicates(["cell", "seed"]).groupby("cell")[column].agg(["sum", "count"])
        done = spent[spent["sum"] > 0].to_dict("index")
        runs = {slug: one for slug, one in plan.runs.items() if done.get(slug, {}).get("count") == len(one.cell.seeds)}
        groups: dict[tuple[str, str], list[tuple[Cell, PlannedParts, float]]] = {}
        for (slug, run), parts in zip(runs.items(), parts_of(runs.values()), strict=True):
            cell, seconds = run.cell, float(done[slug]["sum"])
            groups.setdefault((cell.method, cell.task.dataset), []).append((cell, parts, seconds))
        named = [set(good[name].dropna()) for name in ("commit", "processor")]
        about = plan.suite.name, *(str(one.pop()) if len(one) == 1 else "several" for one in named)
        for (method, dataset), group in sorted(groups.items()):
            sums = PlannedParts(*np.sum([parts for _, parts, _ in group], axis=0).tolist())
            total = sum(seconds for *_, seconds in group)
            low, high = np.quantile([seconds / parts.total for _, parts, seconds in group], EDGES).tolist()
            ends = min(low, total / sums.total), max(high, total / sums.total)
            seeds = sum(len(cell.seeds) for cell, *_ in group)
            found.append(Throughput(method, dataset, device, len(group), seeds, *sums, total, *ends, *about))
    if not found:
        raise UserError(
            f"suite {plan.suite.name}: no cell has a result of all its seeds: expected a suite that was run"
        )
    return found


def read_throughputs(path: Path) -> list[Throughput]:
    """Raise UserError for a file that does not exist or is no such table."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected the table that `dpgraph cost --learn` writes after a run")
    with path.open(encoding="utf-8", newline="") as file:
        try:
            found = TypeAdapter(list[Throughput]).validate_python(list(csv.DictReader(file)))
        except ValidationError:
            columns = ", ".join(one.name for one in fields(Throughput))
            raise UserError(f"{path}: expected the columns {columns}, numbers where they are") from None
    for one in found:
        if not (min(one.parts) >= 0 and one.parts.total > 0 and one.measured_s > 0 and 0 < one.low <= one.high):
            raise UserError(f"{path}: {one.method}: expected seconds above 0, and low up to high")
    return found


def write_throughputs(rows: Iterable[Throughput], path: Path) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(Throughput)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            values = asdict(row).items()
            writer.writerow({name: f"{value:.4g}" if isinstance(value, float) else value for name, value in values})


# --- estimated --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """A method's factors for the three parts, and what its cells on a data set took beyond that.

    `ranges`: (low, high) of single cells' seconds over the estimate, by data set; `spread` of those on others.
    """

    factors: Sequence[float]
    beyond: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    spread: tuple[float, float]

    @classmethod
    def fit(cls, rows: Sequence[Throughput], by_dataset: bool = True) -> Law:
        factors = fitted([row.parts for row in rows], [row.measured_s for row in rows])
        groups: dict[str, list[Throughput]] = {}
        for row in rows if by_dataset else ():
            groups.setdefault(row.dataset, []).append(row)
        beyond = {
            name: sum(row.measured_s for row in group) / sum(float(np.dot(factors, row.parts)) for row in group)
            for name, group in groups.items()
        }
        return cls(factors, beyond, {name: _range(group) for name, group in groups.items()}, _range(rows))

    def seconds(self, parts: PlannedParts, dataset: str) -> float:
        return float(np.dot(self.factors, parts)) * self.beyond.get(dataset, 1.0)

    def range(self, dataset: str) -> tuple[float, float]:
        return self.ranges.get(dataset, self.spread)


def _range(rows: Sequence[Throughput]) -> tuple[float, float]:
    """Return the widest range of any row, over what all together took."""
    factor = sum(row.measured_s for row in rows) / sum(row.parts.total for row in rows)
    return min(1.0, min(row.low for row in rows) / factor), max(1.0, max(row.high for row in rows) / factor)


def fitted(parts: Sequence[PlannedParts], seconds: Sequence[float]) -> list[float]:
    """Return the factors of the three parts that are most likely if measured seconds are Poisson.

    Where no factor is at its bound, `FARTHEST` from that of all three together, the sum of all estimates is that of all
    seconds.
    """
    from scipy.optimize import minimize

    measured = np.asarray(seconds) / sum(seconds)
    planned = np.asarray(parts) / np.sum(parts)

    def loss(factors: np.ndarray) -> tuple[float, np.ndarray]:
        mean = planned @ factors
        return float((mean - measured * np.log(mean)).sum()), planned.T @ (1 - measured / mean)

    found = minimize(
        loss, np.ones(3), jac=True, bounds=[(1 / FARTHEST, FARTHEST)] * 3, options={"ftol": 1e-14, "gtol": 1e-10}
    )
    return list((found.x * sum(seconds) / np.sum(parts)).tolist())


@dataclass(frozen=True)
class FittedLaws:
    """Laws by method on one kind of device, and that of all together for a method that was never measured.

    Without any measurement the plan is the estimate.
    """

    laws: dict[str, Law]
    others: Law
    rows: tuple[Throughput, ...] = ()

    def law(self, method: str) -> Law:
        return self.laws.get(method, self.others)


PLANNED = FittedLaws({}, Law((1.0, 1.0, 1.0), {}, {}, (1.0, 1.0)))


def learnt(rows: Iterable[Throughput], device: str = "cpu") -> FittedLaws:
    """Return the laws of one device, cpu or cuda."""
    measured = tuple(row for row in rows if row.device == device)
    if not measured:
        return PLANNED
    by_method: dict[str, list[Throughput]] = {}
    for row in measured:
        by_method.setdefault(row.method, []).append(row)
    return FittedLaws({name: Law.fit(group) for name, group in by_method.items()}, Law.fit(measured, False), measured)


def known_of(plan: Plan) -> FittedLaws:
    """Return the laws of the device that the plan's config names; `auto` counts as cpu."""
    path = plan.workflow / FILE
    device = "cuda" if plan.config.device == "cuda" else "cpu"
    return learnt(read_throughputs(path), device) if path.is_file() else PLANNED


def left_out_reasons(plan: Plan) -> dict[str, str]:
    """Return why the suite leaves a cell out, by its slug; where it takes too long, how long all its seeds would."""
    runs = {slug: plan.run_of(one.cell) for slug, one in plan.left_out.items() if one.not_run == COMPUTE}
    hours = hours_of(runs, learnt(read_throughputs(plan.workflow / FILE))) if runs else {}
    return {
        slug: str(one.not_run)
        if slug not in hours
        else f"compute: about {hours[slug].mid:.2g} hours of one core for {len(one.cell.seeds)} seeds (estimated)"
        for slug, one in plan.left_out.items()
    }


@dataclass(frozen=True)
class Hours:
    """Estimated hours of one cell, all seeds."""

    mid: float
    low: float
    high: float
    measured: bool  # whether the method was


def hours_of(runs: Mapping[str, Run], known: FittedLaws) -> dict[str, Hours]:
    """Return the hours by slug of cells that are trained in this order."""
    found = {}
    for (slug, run), parts in zip(runs.items(), parts_of(runs.values()), strict=True):
        cell, law = run.cell, known.law(run.cell.method)
        mid = law.seconds(parts, cell.task.dataset) / 3600
        low, high = law.range(cell.task.dataset)
        found[slug] = Hours(mid, mid * low, mid * high, cell.method in known.laws)
    return found


@dataclass(frozen=True)
class Cost:
    """Hours of training of an artefact on one core or one GPU, and how long `jobs` of them take side by side."""

    artefact: str
    cells: int
    runs: int
    hours: float
    low_hours: float
    high_hours: float
    longest_hours: float  # of one cell, which is a job of its own or a part of one
    wall_hours: float
    memory_gib: float
    unmeasured: int  # cells of methods without a throughput of their own


def costs(plan: Plan, known: FittedLaws, jobs: int = 1) -> list[Cost]:
    """Return one row for each artefact that trains something, and one of all cells, each of them once."""
    hours = hours_of(plan.runs, known)
    places: dict[str, dict[str, None]] = {}
    for one in plan.entries:
        if one.cell.slug in hours and one.not_run is None and plan.artefacts[one.artefact].view != "accounting":
            places.setdefault(one.artefact, {})[one.cell.slug] = None
    places[ALL] = dict.fromkeys(plan.cells)
    return [_cost(name, slugs, plan, hours, jobs) for name, slugs in places.items()]


def _cost(name: str, slugs: Iterable[str], plan: Plan, hours: Mapping[str, Hours], jobs: int) -> Cost:
    cells, found = [plan.cells[slug] for slug in slugs], [hours[slug] for slug in slugs]
    total, longest = sum(one.mid for one in found), max((one.mid for one in found), default=0.0)
    return Cost(
        artefact=name,
        cells=len(cells),
        runs=sum(len(cell.seeds) for cell in cells),
        hours=total,
        low_hours=sum(one.low for one in found),
        high_hours=sum(one.high for one in found),
        longest_hours=longest,
        wall_hours=wall_hours(total, longest, min(jobs, max(len(cells), 1))),
        memory_gib=max((memory_mb(cell.task) for cell in cells), default=0) / 1024,
        unmeasured=sum(not one.measured for one in found),
    )


def wall_hours(total: float, longest: float, places: int) -> float:
    """Return Graham's bound (1969) for jobs that start whenever one of the places is free."""
    return total / places + (1 - 1 / places) * longest


def table_of(rows: Sequence[Cost]) -> str:
    """Return the rows as aligned text."""
    lines = []
    for row in rows:
        numbers = (row.low_hours, row.high_hours, row.longest_hours, row.wall_hours)
        low, high, longest, wall = map(_hours, numbers)
        mid = _hours(row.hours) + ("*" if row.unmeasured else "")
        counts = f"{row.cells:,}", f"{row.runs:,}"
        lines.append((row.artefact, *counts, mid, f"{low} to {high}", longest, wall, f"{row.memory_gib:.1f} GiB"))
    heads = ("artefact", "cells", "runs", "hours", "range", "longest", "wall h", "memory")
    return tabulate(lines, heads, "plain", colalign=("left", *["right"] * 7), disable_numparse=True)


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
