"""A small file next to each cell's record with all that the status of a suite needs: records have megabytes.

A summary that is older than the record is not of it; the record itself is then read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from dpgraph.config.frozen import Frozen
from dpgraph.config.record import CellRecord
from dpgraph.core.files import write_text

RESULT, SUMMARY = "result.json", "summary.json"
READ: Any = {"cell": {"seeds"}, "status": True, "reason": True, "seeds": {"__all__": {"seconds", "status"}}}


class CellSummary(Frozen):
    status: str
    reason: str = ""
    seconds: float = Field(description="Of training, summed over seeds")
    seeds: tuple[int, ...] = Field(description="Seeds that the cell asks for")
    failed_seeds: int


def write_record(folder: Path, record: CellRecord) -> None:
    """Write `result.json`, then its summary."""
    write_text(folder / RESULT, record.model_dump_json(indent=1) + "\n")
    write_summary(folder, record)


def write_summary(folder: Path, record: CellRecord) -> None:
    """Write the summary of the record that is in the folder."""
    summary = _summary(record.model_dump(mode="json", include=READ))
    write_text(folder / SUMMARY, summary.model_dump_json(indent=1) + "\n")


def stored_summary(folder: Path | str) -> CellSummary | None:
    """Return None where there is none, or one that is damaged or older than the record.

    Raises OSError where there is no record.
    """
    result = os.stat(f"{folder}/{RESULT}")
    try:
        with open(f"{folder}/{SUMMARY}", "rb") as file:
            written, content = os.fstat(file.fileno()).st_mtime_ns, file.read()
        return CellSummary.model_validate_json(content) if written >= result.st_mtime_ns else None
    except (OSError, ValidationError):
        return None


def summary_of(folder: Path | str) -> CellSummary:
    """Return the stored summary, else that of the record.

    Raises OSError where there is no record, ValueError where it is damaged.
    """
    summary = stored_summary(folder)
    if summary is not None:
        return summary
    with open(f"{folder}/{RESULT}", "rb") as file:
        content = file.read()
    try:
        return _summary(json.loads(content))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder}/{RESULT}: expected the record of a cell") from error


def _summary(record: dict[str, Any]) -> CellSummary:
    seeds = record["seeds"]
    return CellSummary(
        status=str(record["status"]),
        reason=str(record["reason"]),
        seconds=sum(float(seed["seconds"]) for seed in seeds),
        seeds=tuple(record["cell"]["seeds"]),
        failed_seeds=sum(seed["status"] == "failed" for seed in seeds),
    )
