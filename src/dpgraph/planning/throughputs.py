"""Planned and measured seconds: of cells by method and data set, and of kinds of work on a device.

A cell's planned seconds are those of one CPU core. On another device each kind of work has a rate of its own: what it
took there for each planned second.
"""

from __future__ import annotations

import csv
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import TypeAdapter, ValidationError

from dpgraph.core.errors import UserError
from dpgraph.core.files import atomic_path
from dpgraph.engine.methods.cost import NETWORK, SECONDS_PER_STEP, SECONDS_TO_START, TRANSFORMER, steps_of
from dpgraph.problems.registry import size_of

if TYPE_CHECKING:
    from dpgraph.planning.plan import Plan
    from dpgraph.planning.run import Run

FILE = Path("throughputs.csv")  # in the workflow's folder
START, CAPTURED, UNCAPTURED = "start", "captured step", "uncaptured step"
NEEDED = (START, CAPTURED, UNCAPTURED, NETWORK)  # kinds of work of which a device has a rate, if it has any


class PlannedParts(NamedTuple):
    """Planned seconds of a cell, all seeds, by what they grow with."""

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


@dataclass(frozen=True)
class Throughput:
    """Planned and measured seconds of one method's cells on a data set, in one suite and on one kind of device.

    Seconds are those of a CPU core with `device` cpu, on the clock with cuda. A tenth of the cells took less than `low`
    times the plan, a tenth more than `high` times. A row without a data set is the rate of a kind of work, which
    `method` names; `low` and `high` are then the least and the most that was measured.
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


class DeviceEstimate(NamedTuple):
    """Planned parts of a cell on a device, the range of their sum over them, and whether all its kinds were rated."""

    parts: PlannedParts
    low: float
    high: float
    rated: bool


@dataclass(frozen=True)
class DeviceRates:
    """The rates of a device, by kind of work; none: a CPU core, on which seconds are planned.

    A captured step waits for no host, an uncaptured one does. Work is of a network of small layers, of a transformer or
    of convolutions. A transformer's products take longer than the host needs to issue them.
    """

    kinds: Mapping[str, Throughput] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Throughput], device: str) -> DeviceRates:
        """Return the rates of a device among `rows`. Raises UserError where it has some of those needed and not all."""
        kinds = {row.method: row for row in rows if row.device == device and not row.dataset}
        if kinds and (missing := [name for name in NEEDED if name not in kinds]):
            raise UserError(f"{FILE}: device={device}: no rate of {', '.join(missing)}: expected a row of each")
        return cls(kinds)

    def estimate(self, run: Run, parts: PlannedParts) -> DeviceEstimate:
        """Return what a cell takes on the device. Work of a kind without a rate counts as that of a network."""
        if not self.kinds:
            return DeviceEstimate(parts, 1.0, 1.0, rated=False)
        work = run.spec.products(run.cell)
        step = UNCAPTURED if run.spec.why_not_captured(run.cell) else CAPTURED
        rows = [self.kinds.get(name, self.kinds[NETWORK]) for name in (START, step, work)]
        given = parts._replace(steps=0.0) if work == TRANSFORMER else parts
        mid, low, high = (
            PlannedParts(*(seconds * rate for seconds, rate in zip(given, rates, strict=True)))
            for rates in zip(*((row.measured_s / row.parts.total, row.low, row.high) for row in rows), strict=True)
        )
        return DeviceEstimate(mid, low.total / mid.total, high.total / mid.total, work in self.kinds)


def planned_seconds(plan: Plan) -> dict[str, float]:
    """Return the seconds of each cell by slug on the config's device, as planned: no law is fitted, which takes scipy.

    They decide which cells share a job, and must not change while jobs run.
    """
    path, on_gpu = plan.workflow / FILE, plan.config.device == "cuda"
    rates = DeviceRates.of(read_throughputs(path) if on_gpu and path.is_file() else (), plan.config.device)
    parts = zip(plan.runs.items(), parts_of(plan.runs.values()), strict=True)
    return {slug: rates.estimate(run, one).parts.total for (slug, run), one in parts}
