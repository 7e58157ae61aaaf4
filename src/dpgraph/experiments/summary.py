"""What the status of a suite needs of a cell's record, in a small file beside it: records have megabytes.

`summary.json` is removed before a record is replaced and comes after it. So one that is there is of the record beside
it, wherever a process is killed; where there is none, or the record was changed since, the record itself is read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from dpgraph.experiments.frozen import Frozen
from dpgraph.experiments.record import CellRecord
from dpgraph.files import atomic_path, naming, write_text

RESULT, SUMMARY = "result.json", "summary.json"
READ: Any = {"cell": {"seeds"}, "status": True, "reason": True, "seeds": {"__all__": {"seconds", "status"}}}


class CellSummary(Frozen):
    status: str
    reason: str = ""
    seconds: float = Field(description="Of training, summed over seeds")
    seeds: tuple[int, ...] = Field(description="Seeds that the cell asks for")
    failed_seeds: int
    record_bytes: int = Field(description="Size of the record that is summed up")


def write_record(folder: Path, record: CellRecord) -> None:
    """`result.json` and its summary, both or, where the disk takes no more, neither."""
    with atomic_path(folder / SUMMARY) as summary, atomic_path(folder / RESULT) as result:
        result.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        with naming(folder / SUMMARY):
            summary.write_text(_text(record, result.stat().st_size), encoding="utf-8")
        (folder / SUMMARY).unlink(missing_ok=True)  # of the record that is replaced now, before the summary is


def write_summary(folder: Path, record: CellRecord) -> None:
    """Of the record that is in the folder."""
    write_text(folder / SUMMARY, _text(record, (folder / RESULT).stat().st_size))


def _text(record: CellRecord, size: int) -> str:
    return _summary(record.model_dump(mode="json", include=READ), size).model_dump_json(indent=1) + "\n"


def stored_summary(folder: Path | str) -> CellSummary | None:
    """None: there is none, it is damaged, or it is older than the record or of one of another size.

    Raises OSError where there is no record.
    """
    result = os.stat(f"{folder}/{RESULT}")
    try:
        with open(f"{folder}/{SUMMARY}", "rb") as file:
            written, content = os.fstat(file.fileno()).st_mtime_ns, file.read()
        summary = CellSummary.model_validate_json(content)
    except (OSError, ValidationError):
        return None
    return summary if summary.record_bytes == result.st_size and written >= result.st_mtime_ns else None


def summary_of(folder: Path | str) -> CellSummary:
    """The stored summary, else that of the record, as of those that earlier versions wrote.

    Raises OSError where there is no record, ValueError where it is damaged.
    """
    summary = stored_summary(folder)
    if summary is not None:
        return summary
    with open(f"{folder}/{RESULT}", "rb") as file:
        content = file.read()
    try:
        return _summary(json.loads(content), len(content))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder}/{RESULT}: expected the record of a cell") from error


def _summary(record: dict[str, Any], size: int) -> CellSummary:
    seeds = record["seeds"]
    return CellSummary(
        status=str(record["status"]),
        reason=str(record["reason"]),
        seconds=sum(float(seed["seconds"]) for seed in seeds),
        seeds=tuple(record["cell"]["seeds"]),
        failed_seeds=sum(seed["status"] == "failed" for seed in seeds),
        record_bytes=size,
    )
