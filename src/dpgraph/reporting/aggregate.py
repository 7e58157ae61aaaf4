"""All records of a suite as one table: a row per paper, cell, seed, metric and class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from dpgraph.errors import UserError
from dpgraph.experiments.config import first_line
from dpgraph.experiments.paths import Paths
from dpgraph.experiments.plan import Plan
from dpgraph.experiments.record import CellRecord, SeedRecord
from dpgraph.files import atomic_path

COLUMNS: dict[str, str] = {
    "paper": "string",
    "cell": "string",
    "dataset": "string",
    "setting": "string",
    "split": "string",
    "features": "string",
    "method": "string",
    "variant": "string",
    "architecture": "string",
    "hops": "int64",
    "optimizer": "string",
    "epsilon_target": "float64",
    "seed": "int64",
    "status": "string",
    "reason": "string",
    "step": "int64",
    "final": "bool",
    "metric": "string",
    "class_id": "int64",
    "value": "float64",
    "delta": "float64",
    "adjacency": "string",
    "eps_published": "float64",
    "eps_published_reason": "string",
    "eps_rigorous": "float64",
    "eps_rigorous_reason": "string",
    "noise_std_over_clip": "float64",
    "steps": "int64",
    "seconds": "float64",
    "steps_per_second": "float64",
    "roots_per_second": "float64",
    "peak_memory_bytes": "int64",
    "device": "string",
}
NAN = float("nan")


def read_record(path: Path) -> CellRecord:
    try:
        return CellRecord.model_validate_json(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such record; its training job has not run") from None
    except ValidationError as error:
        raise UserError(f"{path}: not a record: {first_line(error)}") from None


def _number(value: Any) -> float:
    return NAN if value is None else float(value)


def _cell_columns(record: CellRecord) -> dict[str, Any]:
    cell, statement = record.cell, record.statement or {}
    published, rigorous = statement.get("published") or {}, statement.get("rigorous") or {}
    return {
        "cell": cell.slug,
        "dataset": cell.task.dataset,
        "setting": cell.task.setting,
        "split": cell.task.split,
        "features": cell.task.features,
        "method": cell.method,
        "variant": cell.privacy.variant if cell.privacy is not None else "none",
        "architecture": cell.model.architecture,
        "hops": cell.model.hops,
        "optimizer": cell.training.optimizer,
        "epsilon_target": _number(cell.privacy.epsilon if cell.privacy is not None else None),
        "delta": _number(rigorous.get("delta")),
        "adjacency": rigorous.get("adjacency", ""),
        "eps_published": _number(published.get("epsilon")),
        "eps_published_reason": published.get("reason") or "",
        "eps_rigorous": _number(rigorous.get("epsilon")),
        "eps_rigorous_reason": rigorous.get("reason") or "",
        "noise_std_over_clip": _number(statement.get("noise_std_over_clip")),
        "steps": statement.get("steps", 0),
    }


def _seed_columns(seed: SeedRecord) -> dict[str, Any]:
    return seed.model_dump(exclude={"metrics", "notes"})


EMPTY = {
    "seed": -1,
    "seconds": NAN,
    "steps_per_second": NAN,
    "roots_per_second": NAN,
    "peak_memory_bytes": 0,
    "device": "",
    "step": 0,
    "final": True,
    "metric": "",
    "class_id": -1,
    "value": NAN,
}


def rows(record: CellRecord) -> Iterator[dict[str, Any]]:
    """Rows of one record without their paper; a cell or a seed without metrics has one row that says why."""
    columns = _cell_columns(record)
    if record.status != "ok":
        yield {**columns, **EMPTY, "status": record.status, "reason": record.reason}
    for seed in record.seeds:
        own = {**columns, **EMPTY, **_seed_columns(seed)}
        if not seed.metrics and record.status == "ok":
            yield own
        for metric in seed.metrics:
            yield {**own, **metric.model_dump()}


def frame(rows_: Iterable[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows_), columns=list(COLUMNS)).astype(COLUMNS)


def aggregate(plan: Plan, path: Path) -> pd.DataFrame:
    """Read every record of the plan and write the table as Parquet; a cell that two papers use has rows for both."""
    paths = Paths(plan.config)
    papers: dict[str, set[str]] = {}
    for entry in plan.entries:
        papers.setdefault(entry.cell.slug, set()).add(entry.paper)
    table = frame(
        {"paper": paper, **row}
        for slug, cell in plan.cells.items()
        for row in rows(read_record(paths.result(cell)))
        for paper in sorted(papers[slug])
    )
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False)
    return table
