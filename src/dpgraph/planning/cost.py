"""The cost of training, planned before there is data and corrected by what suites took.

The planner knows the registry's sizes and a cell's settings. Its seconds have three parts: what a start, a step and all
else cost. For each method three factors are fitted to what its cells took in the suites that were run
(workflow/throughputs.csv); one factor for all three would carry from small graphs to large ones what only starts and
steps cost. What a method's cells took beyond that on a data set, other cells on it are expected to take, too. On a GPU
the three parts are first multiplied by the device's rates.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from tabulate import tabulate

from dpgraph.config.cell import Cell, Task
from dpgraph.config.suite import COMPUTE
from dpgraph.core.errors import UserError
from dpgraph.planning.throughputs import FILE, DeviceRates, PlannedParts, Throughput, parts_of, read_throughputs
from dpgraph.problems.registry import size_of

if TYPE_CHECKING:
    import pandas as pd

    from dpgraph.planning.plan import Plan
    from dpgraph.planning.run import Run

FARTHEST = 10.0  # the factor of a part is at most so many times that of all three, and at least so small a part of it
EDGES = (0.1, 0.9)  # quantiles of the cells' ratios of measured to planned seconds: `low` and `high`
ALL = "all, each cell once"


def memory_mb(task: Task) -> int:
    """Return what a job that trains or prepares the task's data needs: libraries, and the data with three copies."""
    return math.ceil(1500 + 4 * size_of(task).megabytes)


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
        rates = known_of(plan, device).rates
        for (slug, run), planned in zip(runs.items(), parts_of(runs.values()), strict=True):
            cell, seconds, parts = run.cell, float(done[slug]["sum"]), rates.estimate(run, planned).parts
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


AS_PLANNED = Law((1.0, 1.0, 1.0), {}, {}, (1.0, 1.0))


@dataclass(frozen=True)
class FittedLaws:
    """Laws by method on one kind of device, and that of all together for a method that was never measured.

    Without any measurement the plan is the estimate, on a device with rates the plan times these.
    """

    laws: Mapping[str, Law] = field(default_factory=dict)
    others: Law = AS_PLANNED
    rows: tuple[Throughput, ...] = ()
    rates: DeviceRates = field(default_factory=DeviceRates)

    def law(self, method: str) -> Law:
        return self.laws.get(method, self.others)


def learnt(rows: Sequence[Throughput], device: str = "cpu") -> FittedLaws:
    """Return the laws of one device, cpu or cuda."""
    rates, by_method = DeviceRates.of(rows, device), dict[str, list[Throughput]]()
    measured = tuple(row for row in rows if row.device == device and row.dataset)
    for row in measured:
        by_method.setdefault(row.method, []).append(row)
    laws = {name: Law.fit(group) for name, group in by_method.items()}
    # a device's rates tell methods apart, which one law of all of them does not
    others = AS_PLANNED if rates.kinds or not measured else Law.fit(measured, False)
    return FittedLaws(laws, others, measured, rates)


_learnt_once = lru_cache(maxsize=4)(learnt)


def known_of(plan: Plan, device: str = "") -> FittedLaws:
    """Return the laws of a device, by default of the one that the plan's config names; `auto` counts as cpu."""
    path = plan.workflow / FILE
    named = device or ("cuda" if plan.config.device == "cuda" else "cpu")
    return _learnt_once(tuple(read_throughputs(path)), named) if path.is_file() else FittedLaws()


def left_out_reasons(plan: Plan) -> dict[str, str]:
    """Return why the suite leaves a cell out, by its slug; where it takes too long, how long all its seeds would."""
    runs = {slug: plan.run_of(one.cell) for slug, one in plan.left_out.items() if one.not_run == COMPUTE}
    hours = hours_of(runs, known_of(plan, "cpu")) if runs else {}
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
    measured: bool  # whether the method was, or the device's rate of its kind of work


def hours_of(runs: Mapping[str, Run], known: FittedLaws) -> dict[str, Hours]:
    """Return the hours by slug of cells that are trained in this order."""
    found = {}
    for (slug, run), planned in zip(runs.items(), parts_of(runs.values()), strict=True):
        method, dataset = run.cell.method, run.cell.task.dataset
        law, estimate = known.law(method), known.rates.estimate(run, planned)
        mid = law.seconds(estimate.parts, dataset) / 3600
        low, high = law.range(dataset) if method in known.laws or not known.rates.kinds else estimate[1:3]
        found[slug] = Hours(mid, mid * low, mid * high, method in known.laws or estimate.rated)
    return found


@dataclass(frozen=True)
class DeviceCost:
    """Hours of training of an artefact on one core or one GPU; `unmeasured` cells have neither a law nor a rate."""

    hours: float
    low: float
    high: float
    unmeasured: int

    @classmethod
    def of(cls, found: Sequence[Hours]) -> DeviceCost:
        """Return the sum over cells."""
        mid, low, high = (sum(getattr(one, name) for one in found) for name in ("mid", "low", "high"))
        return cls(mid, low, high, sum(not one.measured for one in found))

    @property
    def text(self) -> tuple[str, str]:
        """Return the hours, marked where some are of unmeasured cells, and their range."""
        return _hours(self.hours) + "*" * bool(self.unmeasured), f"{_hours(self.low)} to {_hours(self.high)}"


@dataclass(frozen=True)
class Cost:
    """Cost of training an artefact, and how long `jobs` side by side take on the device of the config."""

    artefact: str
    cells: int
    runs: int
    core: DeviceCost
    gpu: DeviceCost | None  # None: no GPU was measured
    longest_hours: float  # of one cell, which is a job of its own or a part of one
    wall_hours: float
    memory_gib: float


def costs(plan: Plan, jobs: int = 1) -> list[Cost]:
    """Return one row for each artefact that trains something, and one of all cells, each of them once."""
    hours = _by_device(plan, plan.runs)
    places: dict[str, dict[str, None]] = {}
    for one in plan.entries:
        if one.cell.slug in hours[0] and one.not_run is None and plan.artefacts[one.artefact].view != "accounting":
            places.setdefault(one.artefact, {})[one.cell.slug] = None
    places[ALL] = dict.fromkeys(plan.cells)
    return [_cost(name, slugs, plan, hours, jobs) for name, slugs in places.items()]


def _by_device(plan: Plan, runs: Mapping[str, Run]) -> list[dict[str, Hours]]:
    """Return the hours by slug on a core and, if one was measured, on a GPU."""
    core, gpu = known_of(plan, "cpu"), known_of(plan, "cuda")
    return [hours_of(runs, core), *([hours_of(runs, gpu)] if gpu.rates.kinds or gpu.rows else [])]


def hours_in_words(plan: Plan, slugs: Collection[str]) -> str:
    """Return an estimate such as `15 cells, estimated: 2.5 core hours (1.9 to 4.0) or 0.1 GPU hours (0.1 to 0.2)`."""
    found = _by_device(plan, {slug: plan.runs[slug] for slug in slugs})
    sums = zip(("core", "GPU"), (DeviceCost.of(list(one.values())).text for one in found), strict=False)
    texts = [f"{mid.rstrip('*')} {unit} hours ({span})" for unit, (mid, span) in sums]
    return f"{len(slugs)} cell{'s' if len(slugs) > 1 else ''}, estimated: {' or '.join(texts)}"


def _cost(name: str, slugs: Iterable[str], plan: Plan, hours: Sequence[Mapping[str, Hours]], jobs: int) -> Cost:
    cells, found = [plan.cells[slug] for slug in slugs], [[one[slug] for slug in slugs] for one in hours]
    core, *gpu = map(DeviceCost.of, found)
    used = -1 if plan.config.device == "cuda" else 0  # where no GPU was measured, a core
    total, longest = [core, *gpu][used].hours, max((one.mid for one in found[used]), default=0.0)
    return Cost(
        artefact=name,
        cells=len(cells),
        runs=sum(len(cell.seeds) for cell in cells),
        core=core,
        gpu=gpu[0] if gpu else None,
        longest_hours=longest,
        wall_hours=wall_hours(total, longest, min(jobs, max(len(cells), 1))),
        memory_gib=max((memory_mb(cell.task) for cell in cells), default=0) / 1024,
    )


def measured_on(plan: Plan) -> str:
    """Return sentences on the processors of the measurements, and the suites."""
    lines = []
    for device in ("cpu", "cuda"):
        known = known_of(plan, device)
        rows = known.rows or tuple(known.rates.kinds.values())
        names = ", ".join(dict.fromkeys(row.processor for row in rows))
        cells = f"{sum(row.cells for row in known.rows):,} cells of {len({row.suite for row in known.rows})} suites"
        lines += [f"Measured on {names}: {cells if known.rows else 'rates by kind of work'}."] * bool(rows)
    return "\n".join(lines)


def wall_hours(total: float, longest: float, places: int) -> float:
    """Return Graham's bound (1969) for jobs that start whenever one of the places is free."""
    return total / places + (1 - 1 / places) * longest


def table_of(rows: Sequence[Cost]) -> str:
    """Return the rows as aligned text."""
    lines = []
    for row in rows:
        gpu = row.gpu.text if row.gpu else ("–", "–")
        times = _hours(row.longest_hours), _hours(row.wall_hours)
        counts = f"{row.cells:,}", f"{row.runs:,}"
        lines.append((row.artefact, *counts, *row.core.text, *gpu, *times, f"{row.memory_gib:.1f} GiB"))
    heads = ("artefact", "cells", "runs", "core h", "range", "GPU h", "range", "longest", "wall h", "memory")
    return tabulate(lines, heads, "plain", colalign=("left", *["right"] * 9), disable_numparse=True)


def _hours(value: float) -> str:
    if value >= 1000:
        value = float(f"{value:.2g}")  # no forecast has more digits
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
