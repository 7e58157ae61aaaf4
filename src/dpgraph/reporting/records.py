"""One record of a cell as the aggregation reads it: checked, its metrics as plain lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import from_json

from dpgraph.config.cell import Cell
from dpgraph.config.config import first_line
from dpgraph.config.frozen import Frozen
from dpgraph.config.record import CellRecord
from dpgraph.core.errors import UserError, shown
from dpgraph.planning.resolve import resolve
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.dictionary import PRIVATE_COLUMNS, mechanism_values


@dataclass(frozen=True)
class Metrics:
    """The metrics of one seed, a list per field of `record.Metric`."""

    step: list[int] = field(default_factory=list)
    final: list[bool] = field(default_factory=list)
    metric: list[str] = field(default_factory=list)
    class_id: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Metrics:
        rows = list(rows)
        kinds = {"step": int, "final": bool, "metric": str, "class_id": int}
        columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in kinds}
        metrics = cls(**columns, value=[float(row["value"]) for row in rows])
        for name, kind in kinds.items():
            values = getattr(metrics, name)
            if set(map(type, values)) - {kind}:
                raise ValueError(f"{name} of a metric: expected {kind.__name__}")
            if kind is int and values:
                _check_range(name, min(values), max(values))
        return metrics


def _check_range(name: str, *values: int) -> None:
    """Raises ValueError for what the table's columns cannot hold."""
    for value in values:
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"{name}={shown(value)}: expected an integer of 64 bits")


class RecordedGuarantee(Frozen):
    """A guarantee with its relation and scope, without which an epsilon has no meaning."""

    model_config = ConfigDict(extra="ignore")
    relation: Relation | Literal[""]
    scope: Scope | Literal[""]
    unmet: tuple[str, ...] = ()
    epsilon: float | None = None
    reason: str | None = None
    delta: float | None = None


NO_GUARANTEE = RecordedGuarantee(relation="", scope="")


class RecordedStatement(Frozen):
    """The parts of a record's statement that the table shows."""

    model_config = ConfigDict(extra="ignore")
    published: RecordedGuarantee = NO_GUARANTEE
    rigorous: RecordedGuarantee = NO_GUARANTEE
    beside: tuple[RecordedGuarantee, ...] = ()
    uncovered: tuple[str, ...] = ()
    mechanism: dict[str, Any] = Field(default_factory=dict)
    noise_std_over_clip: float | None = None
    steps: int = 0

    @cached_property
    def calibrated(self) -> dict[str, Any]:
        """Return the columns of its mechanism. Raises ValueError."""
        return mechanism_values(self.mechanism)


@dataclass(frozen=True)
class ParsedRecord:
    """A record whose seeds have no metrics, and these, seed by seed."""

    record: CellRecord
    metrics: tuple[Metrics, ...]
    cell: Cell

    @cached_property
    def statement(self) -> RecordedStatement:
        return RecordedStatement.model_validate(self.record.statement or {})


def read_record(path: Path) -> ParsedRecord:
    try:
        value = from_json(Path(path).read_bytes())
        for seed in value.get("seeds", ()):
            for name in PRIVATE_COLUMNS:
                seed.pop(name, None)
        metrics = tuple(Metrics.from_rows(seed.pop("metrics", ())) for seed in value.get("seeds", ()))
        record = CellRecord.model_validate(value)
        read = ParsedRecord(record, metrics, resolve(record.cell))
        _check_range("steps", read.statement.steps)
        _ = read.statement.calibrated  # raises ValueError
        for seed in record.seeds:
            _check_range("seed, peak_memory_bytes", seed.seed, seed.peak_memory_bytes)
        return read
    except FileNotFoundError:
        raise UserError(f"{path}: no such record; its training job has not run") from None
    except ValidationError as error:
        reason = first_line(error)
    except UserError as error:
        reason = str(error)
    except KeyError as error:
        reason = f"a metric without {error.args[0]}"
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        reason = str(error)
    raise UserError(f"{path}: not a record ({' '.join(reason.split())[:120]}): delete it and run again")
