"""One record of a cell as the aggregation reads it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import from_json

from dpgraph.config.cell import Cell
from dpgraph.config.config import first_line
from dpgraph.config.frozen import Frozen
from dpgraph.config.record import CellRecord, Int64
from dpgraph.core.errors import UserError
from dpgraph.planning.resolve import resolve
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.dictionary import mechanism_values


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
    steps: Int64 = 0

    @cached_property
    def calibrated(self) -> dict[str, Any]:
        """Return the columns of its mechanism. Raises ValueError."""
        return mechanism_values(self.mechanism)


@dataclass(frozen=True)
class ParsedRecord:
    """A record and its cell."""

    record: CellRecord
    cell: Cell

    @cached_property
    def statement(self) -> RecordedStatement:
        return RecordedStatement.model_validate(self.record.statement or {})


def read_record(path: Path) -> ParsedRecord:
    """Return the record in a file. Raises UserError for one that is not there or damaged."""
    try:
        record = CellRecord.model_validate(from_json(Path(path).read_bytes()))
        read = ParsedRecord(record, resolve(record.cell))
        _ = read.statement.calibrated  # raises ValueError
        return read
    except FileNotFoundError:
        lacks = "no such record; its training job has not run: run `dpgraph run` first, with the same --suite"
        raise UserError(f"{path}: {lacks}") from None
    except ValidationError as error:
        reason = first_line(error)
    except (UserError, ValueError) as error:
        reason = str(error)
    raise UserError(f"{path}: not a record ({' '.join(reason.split())[:120]}): delete it and run again")
