"""What training took in the suites that were run, and the law by which other cells are estimated from it.

For each method planned seconds are split in three (`planning.cost.PlannedParts`): what a start, a step and all else
cost. One factor for all three would carry from small graphs to large ones what only starts and steps cost. The three
factors are fitted to all that was measured of the method; what its cells on a data set took beyond that, other cells on
the same data set take, too.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dpgraph.errors import UserError
from dpgraph.planning.cost import PlannedParts

FILE = Path("throughputs.csv")  # in the workflow's folder
FARTHEST = 10.0  # a factor of one part is at most so many times, and at least so small a part of, that of all three
ROUNDS, SWEEPS, CLOSE = 200, 200, 1e-9


@dataclass(frozen=True)
class Throughput:
    """Of one method's cells on a data set in a suite that was run: CPU seconds of training, planned and measured.

    A tenth of the cells took less than `low` times the plan, a tenth more than `high` times.
    """

    method: str
    dataset: str
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


@dataclass(frozen=True)
class Law:
    """Of a method: a factor for each part of the plan, and of what was measured on a data set beyond that.

    `ranges`: (low, high) of single cells' seconds over the estimate, by data set; `spread` of those on others.
    """

    factors: tuple[float, float, float]
    beyond: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    spread: tuple[float, float]

    def seconds(self, parts: PlannedParts, dataset: str) -> float:
        return weighted(self.factors, parts) * self.beyond.get(dataset, 1.0)

    def range(self, dataset: str) -> tuple[float, float]:
        return self.ranges.get(dataset, self.spread)


@dataclass(frozen=True)
class Known:
    """Laws by method, and that of all together for a method that was never measured."""

    laws: dict[str, Law]
    others: Law
    cells: int
    suites: tuple[str, ...]
    commits: tuple[str, ...]
    processors: tuple[str, ...]

    def law(self, method: str) -> Law:
        return self.laws.get(method, self.others)


def weighted(factors: tuple[float, float, float], parts: PlannedParts) -> float:
    return sum(factor * part for factor, part in zip(factors, parts, strict=True))


def learnt(rows: Iterable[Throughput]) -> Known:
    """Raises UserError where there is no row."""
    measured = list(rows)
    if not measured:
        raise UserError("no throughput was measured: expected rows that `dpgraph cost --learn` writes after a run")
    by_method: dict[str, list[Throughput]] = {}
    for row in measured:
        by_method.setdefault(row.method, []).append(row)
    return Known(
        laws={name: _law(group, by_dataset=True) for name, group in by_method.items()},
        others=_law(measured, by_dataset=False),
        cells=sum(row.cells for row in measured),
        suites=tuple(dict.fromkeys(row.suite for row in measured)),
        commits=tuple(dict.fromkeys(row.commit for row in measured)),
        processors=tuple(dict.fromkeys(row.processor for row in measured)),
    )


def _law(rows: Sequence[Throughput], by_dataset: bool) -> Law:
    factors = fitted([row.parts for row in rows], [row.measured_s for row in rows])
    by_name: dict[str, list[Throughput]] = {}
    for row in rows if by_dataset else ():
        by_name.setdefault(row.dataset, []).append(row)
    return Law(
        factors,
        {
            name: sum(row.measured_s for row in group) / sum(weighted(factors, row.parts) for row in group)
            for name, group in by_name.items()
        },
        {name: _range(group) for name, group in by_name.items()},
        _range(rows),
    )


def _range(rows: Sequence[Throughput]) -> tuple[float, float]:
    """The widest of any row, over what all together took."""
    factor = sum(row.measured_s for row in rows) / sum(row.parts.total for row in rows)
    return min(1.0, min(row.low for row in rows) / factor), max(1.0, max(row.high for row in rows) / factor)


def fitted(parts: Sequence[PlannedParts], seconds: Sequence[float]) -> tuple[float, float, float]:
    """Factors of the three parts by Poisson's likelihood: the sum of all estimates is that of all seconds.

    (Where no factor is at its bound, `FARTHEST` from that of all three together.) Minimised by weighted least squares,
    weights 1 / estimate, each by coordinates.
    """
    single = sum(seconds) / sum(part.total for part in parts)
    low, high = single / FARTHEST, single * FARTHEST
    factors = [single] * 3
    for _ in range(ROUNDS):
        before = list(factors)
        weights = [1 / max(weighted((factors[0], factors[1], factors[2]), part), 1e-9) for part in parts]
        squares = [[sum(w * x[i] * x[j] for w, x in zip(weights, parts)) for j in range(3)] for i in range(3)]
        products = [sum(w * x[i] * y for w, x, y in zip(weights, parts, seconds)) for i in range(3)]
        for _ in range(SWEEPS):
            last = list(factors)
            for i in range(3):
                if squares[i][i] > 0:
                    rest = products[i] - sum(squares[i][j] * factors[j] for j in range(3) if j != i)
                    factors[i] = min(max(rest / squares[i][i], low), high)
            if _near(last, factors):
                break
        if _near(before, factors):
            break
        factors = [(old + new) / 2 for old, new in zip(before, factors)]  # whole steps may go round in circles
    return factors[0], factors[1], factors[2]


def _near(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(abs(a - b) <= CLOSE * a for a, b in zip(one, other, strict=True))


def read_throughputs(path: Path) -> list[Throughput]:
    """A row for each suite, method and data set. Raises UserError for a file that is not there or is no such table."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected what `dpgraph cost --learn` writes after a run")
    kinds = {one.name: str(one.type) for one in fields(Throughput)}
    found: list[Throughput] = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                one = Throughput(**{name: _value(row[name], kind) for name, kind in kinds.items()})
            except (KeyError, TypeError, ValueError):
                raise UserError(f"{path}: expected the columns {', '.join(kinds)}, numbers where they are") from None
            if not (min(one.parts) >= 0 and one.parts.total > 0 and one.measured_s > 0 and 0 < one.low <= one.high):
                raise UserError(f"{path}: {one.method}: expected seconds above 0, and low up to high")
            found.append(one)
    if not found:
        raise UserError(f"{path}: no row: expected throughputs that `dpgraph cost --learn` writes after a run")
    return found


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
