"""What a suite costs before it runs: hours, memory and wall time of each artefact, from measured throughputs.

The planner's seconds (planning/cost.py) are corrected by what the method's cells took in the suites that were run; how
far single cells were from that gives the range. Everything here is an estimate, and says on what it rests.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Cell
from dpgraph.experiments.frozen import Finite
from dpgraph.planning.cost import memory_mb, train_seconds
from dpgraph.planning.plan import Plan

FILE = Path("throughputs.csv")  # in the workflow's folder
ALL = "all methods"
TOTAL = "all, each cell once"


@dataclass(frozen=True)
class Throughput:
    """Of one method's cells in a suite that was run: `measured_s` CPU seconds of training for `planned_s` planned.

    A tenth of the cells took less than `low` times the plan, a tenth more than `high` times.
    """

    method: str
    cells: int
    runs: int
    planned_s: float
    measured_s: float
    low: float
    high: float
    suite: str
    commit: str
    processor: str

    @property
    def factor(self) -> float:
        return self.measured_s / self.planned_s


class Cluster(Finite):
    """A machine or a cluster: `--cluster` names a YAML file with these keys."""

    name: str = "this machine"
    cores: Annotated[int, Field(ge=1, le=10**6, description="Jobs at a time, one core each")] = 1
    core_speed: Annotated[
        float, Field(gt=0, le=100, description="Of a core, in those on which the throughputs were measured")
    ] = 1.0
    gpus: Annotated[int, Field(ge=0, le=10**5, description="Jobs at a time with a GPU")] = 0
    gpu_speed: Annotated[
        float | None,
        Field(
            gt=0, le=10**5, description="Of a GPU in such cores, as `dpgraph bench` measures it there; None: not known"
        ),
    ] = None
    queue_seconds: Annotated[float, Field(ge=0, le=10**6, description="That a job waits before it starts")] = 0.0


@dataclass(frozen=True)
class Cost:
    """Of one artefact, or of all: CPU hours of training on one core, and how long a cluster takes."""

    artefact: str
    cells: int
    runs: int
    core_hours: float
    low_hours: float
    high_hours: float
    shared_hours: float  # of these, of cells that other artefacts show, too
    longest_hours: float  # of one cell, which is a job of its own or a part of one
    memory_gib: float
    wall_hours: float
    gpu_hours: float  # nan: not known
    unmeasured: int  # cells of methods without a throughput of their own


def read_throughputs(path: Path) -> list[Throughput]:
    """A row for each suite and method. Raises UserError for a file that is not there or is no such table."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected the throughputs that `dpgraph throughputs` writes after a run")
    kinds = {one.name: one.type for one in fields(Throughput)}
    found: list[Throughput] = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                one = Throughput(**{name: _value(row[name], str(kind)) for name, kind in kinds.items()})
            except (KeyError, TypeError, ValueError):
                raise UserError(f"{path}: expected the columns {', '.join(kinds)}, numbers where they are") from None
            if not (one.planned_s > 0 and one.measured_s > 0 and 0 < one.low <= one.high):
                raise UserError(f"{path}: {one.method}: expected seconds above 0, and low up to high")
            found.append(one)
    for suite in {one.suite for one in found} or {"any"}:
        if not any(one.method == ALL and one.suite == suite for one in found):
            raise UserError(f"{path}: expected a row for {ALL} of suite {suite}")
    return found


def together(rows: Iterable[Throughput]) -> dict[str, Throughput]:
    """By method, of all suites: seconds are added, and the range is the widest of any suite."""
    groups: dict[str, list[Throughput]] = {}
    for row in rows:
        groups.setdefault(row.method, []).append(row)
    return {name: _joined(name, group) for name, group in groups.items()}


def _joined(method: str, rows: Sequence[Throughput]) -> Throughput:
    return Throughput(
        method=method,
        cells=sum(row.cells for row in rows),
        runs=sum(row.runs for row in rows),
        planned_s=sum(row.planned_s for row in rows),
        measured_s=sum(row.measured_s for row in rows),
        low=min(row.low for row in rows),
        high=max(row.high for row in rows),
        suite=", ".join(row.suite for row in rows),
        commit=", ".join(dict.fromkeys(row.commit for row in rows)),
        processor=" and ".join(dict.fromkeys(row.processor for row in rows)),
    )


def _value(text: str, kind: str) -> Any:
    return int(text) if kind == "int" else float(text) if kind == "float" else text


def write_throughputs(rows: Iterable[Throughput], path: Path) -> None:
    from dpgraph.files import atomic_path

    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(Throughput)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            numbers = {
                name: f"{value:.4g}" if isinstance(value, float) else value for name, value in asdict(row).items()
            }
            writer.writerow(numbers)


@dataclass(frozen=True)
class Hours:
    """Of one cell, all seeds."""

    mid: float
    low: float
    high: float
    measured: bool


def hours_of(cell: Cell, known: Mapping[str, Throughput]) -> Hours:
    own = known.get(cell.method, known[ALL])
    planned = train_seconds(cell) / 3600
    return Hours(planned * own.factor, planned * own.low, planned * own.high, cell.method in known)


def costs(plan: Plan, known: Mapping[str, Throughput], cluster: Cluster | None = None) -> list[Cost]:
    """One for each artefact that trains something, and one of all cells, each of them once."""
    machine = Cluster() if cluster is None else cluster
    hours = {slug: hours_of(cell, known) for slug, cell in plan.cells.items()}
    places: dict[str, set[str]] = {}
    for entry in plan.entries:
        if entry.cell.slug in hours and entry.not_run is None and plan.artefacts[entry.artefact].view != "accounting":
            places.setdefault(entry.artefact, set()).add(entry.cell.slug)
    counts: dict[str, int] = {}
    for slugs in places.values():
        for slug in slugs:
            counts[slug] = counts.get(slug, 0) + 1
    rows = [_cost(name, plan, sorted(slugs), hours, machine, counts) for name, slugs in places.items()]
    return [*rows, _cost(TOTAL, plan, list(plan.cells), hours, machine, {})]


def _cost(
    name: str, plan: Plan, slugs: list[str], hours: Mapping[str, Hours], machine: Cluster, counts: Mapping[str, int]
) -> Cost:
    cells = [plan.cells[slug] for slug in slugs]
    total = sum(hours[slug].mid for slug in slugs)
    longest = max((hours[slug].mid for slug in slugs), default=0.0)
    gpu = math.nan if machine.gpu_speed is None else total / machine.gpu_speed
    return Cost(
        artefact=name,
        cells=len(cells),
        runs=sum(len(cell.seeds) for cell in cells),
        core_hours=total,
        low_hours=sum(hours[slug].low for slug in slugs),
        high_hours=sum(hours[slug].high for slug in slugs),
        shared_hours=sum(hours[slug].mid for slug in slugs if counts.get(slug, 0) > 1),
        longest_hours=longest,
        memory_gib=max((memory_mb(cell.task) for cell in cells), default=0) / 1024,
        wall_hours=_wall(total, longest, len(cells), machine),
        gpu_hours=gpu,
        unmeasured=sum(not hours[slug].measured for slug in slugs),
    )


def _wall(total: float, longest: float, jobs: int, machine: Cluster) -> float:
    """Graham's bound for jobs that start whenever a place is free: total / m + (1 - 1 / m) longest.

    On GPUs where there are some whose speed is known, else on cores.
    """
    on_gpus = machine.gpus > 0 and machine.gpu_speed is not None
    places = min(machine.gpus if on_gpus else machine.cores, max(jobs, 1))
    speed = float(machine.gpu_speed or 1.0) if on_gpus else machine.core_speed
    waits = math.ceil(jobs / places) * machine.queue_seconds / 3600
    return (total / places + (1 - 1 / places) * longest) / speed + waits
