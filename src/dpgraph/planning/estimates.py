"""What a suite costs before it runs: hours, memory and wall time of each artefact, from measured throughputs.

The planner's seconds (planning/cost.py) are corrected by what the method's cells took in the suites that were run
(planning/throughputs.py); how far single cells were from that gives the range. Everything here is an estimate, and says
on what it rests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from dpgraph.experiments.cell import Cell
from dpgraph.experiments.frozen import Finite
from dpgraph.planning.cost import memory_mb, parts_of
from dpgraph.planning.plan import Plan
from dpgraph.planning.throughputs import Known

TOTAL = "all, each cell once"


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


@dataclass(frozen=True)
class Hours:
    """Of one cell, all seeds."""

    mid: float
    low: float
    high: float
    measured: bool


def hours_of(cells: Mapping[str, Cell], known: Known) -> dict[str, Hours]:
    """By slug, of cells that are trained in this order."""
    found = {}
    for (slug, cell), parts in zip(cells.items(), parts_of(cells.values()), strict=True):
        law = known.law(cell.method)
        mid = law.seconds(parts, cell.task.dataset) / 3600
        low, high = law.range(cell.task.dataset)
        found[slug] = Hours(mid, mid * low, mid * high, cell.method in known.laws)
    return found


def costs(plan: Plan, known: Known, cluster: Cluster | None = None) -> list[Cost]:
    """One for each artefact that trains something, and one of all cells, each of them once."""
    machine = Cluster() if cluster is None else cluster
    hours = hours_of(plan.cells, known)
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
