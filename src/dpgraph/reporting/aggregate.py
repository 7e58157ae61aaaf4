"""All records of a suite as one table: a row per paper, cell, seed, metric and class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from dpgraph.errors import UserError
from dpgraph.experiments.config import first_line
from dpgraph.experiments.paths import Paths
from dpgraph.experiments.plan import Plan
from dpgraph.experiments.record import CellRecord, Metric, SeedRecord
from dpgraph.files import atomic_path
from dpgraph.reporting.hard_cases import Predictions, hard_case_shares

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
MODES = ("published", "rigorous")


def read_record(path: Path) -> CellRecord:
    try:
        return CellRecord.model_validate_json(Path(path).read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path}: no such record; its training job has not run") from None
    except ValidationError as error:
        first = error.errors()[0]
        reason = first["msg"] if first["type"] == "json_invalid" else first_line(error)  # never the file's whole text
        raise UserError(f"{path}: not a record ({_short(reason)}): delete it and run again") from None


def _short(text: str) -> str:
    return " ".join(text.split())[:120]


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


NO_METRICS = Metric(step=0, final=True, metric="", value=NAN)
NO_SEED = SeedRecord(seed=-1, status="failed", seconds=NAN, steps_per_second=NAN, roots_per_second=NAN)
NO_BUDGET = "no budget was recorded at this step"
BY_METRIC = tuple(Metric.model_fields)  # all other columns are the same in all rows of a seed and step


@dataclass(frozen=True)
class Block:
    """Rows of one record that differ in their metric only."""

    columns: dict[str, Any]
    metrics: tuple[Metric, ...]


def blocks(record: CellRecord) -> Iterator[Block]:
    """Rows of one record without their paper; a cell or a seed without metrics has one row that says why.

    Both epsilons are those of the row's step: the statement's at the last one, the record's budgets before it.
    """
    columns = _cell_columns(record)
    if record.status != "ok":
        failed = {"status": record.status, "reason": record.reason}
        yield Block({**columns, **_seed_columns(NO_SEED), **failed}, (NO_METRICS,))
    budgets = _budgets(record, columns)
    for seed in record.seeds:
        own = {**columns, **_seed_columns(seed)}
        if not seed.metrics and record.status == "ok":
            yield Block(own, (NO_METRICS,))
        for (step, final), metrics in groupby(seed.metrics, key=lambda metric: (metric.step, metric.final)):
            yield Block(own if final or budgets is None else own | budgets.get(step, UNKNOWN), tuple(metrics))


def _seed_columns(seed: SeedRecord) -> dict[str, Any]:
    return seed.model_dump(exclude={"metrics", "notes"})


UNKNOWN: dict[str, Any] = {f"eps_{mode}": NAN for mode in MODES} | {f"eps_{mode}_reason": NO_BUDGET for mode in MODES}


def _budgets(record: CellRecord, columns: dict[str, Any]) -> dict[int, dict[str, Any]] | None:
    """Epsilons and reasons by step before the last. None: without privacy all steps have the statement's."""
    if record.cell.privacy is None:
        return None
    found: dict[int, dict[str, Any]] = {}
    for budget in record.budgets:
        at: dict[str, Any] = {}
        found[budget.step] = at
        for mode in MODES:
            value = getattr(budget, f"eps_{mode}")
            at[f"eps_{mode}"] = _number(value)
            at[f"eps_{mode}_reason"] = (columns[f"eps_{mode}_reason"] or NO_BUDGET) if value is None else ""
    return found


def frame(parts: Iterable[tuple[str, Block]]) -> pd.DataFrame:
    """Rows of (paper, block) pairs, repeated block by block: records with many evaluations have many rows."""
    parts = list(parts)
    heads = pd.DataFrame(
        [{"paper": paper, **block.columns} for paper, block in parts],
        columns=[name for name in COLUMNS if name not in BY_METRIC],
    )
    metrics = [metric for _, block in parts for metric in block.metrics]
    repeated = np.repeat(np.arange(len(parts)), [len(block.metrics) for _, block in parts])
    heads = heads.astype({name: COLUMNS[name] for name in heads.columns}).iloc[repeated].reset_index(drop=True)
    own = pd.DataFrame({name: [getattr(metric, name) for metric in metrics] for name in BY_METRIC})
    return pd.concat([heads, own.astype({name: COLUMNS[name] for name in BY_METRIC})], axis=1)[list(COLUMNS)]


def _with(block: Block, shares: Mapping[str, float]) -> Block:
    """The block of a seed's last step with more metrics; any other one as it is."""
    last = block.metrics[0]
    if not shares or not last.final or not last.metric:
        return block
    added = (Metric(step=last.step, final=True, metric=name, value=value) for name, value in shares.items())
    return Block(block.columns, (*block.metrics, *added))


def aggregate(plan: Plan, path: Path) -> pd.DataFrame:
    """Read every record of the plan and write the table as Parquet; a cell that two papers use has rows for both.

    Shares of hard cases, which compare the predictions of two cells, are added at the last step.
    """
    paths = Paths(plan.config)
    papers: dict[str, set[str]] = {}
    for entry in plan.entries:
        papers.setdefault(entry.cell.slug, set()).add(entry.paper)
    shares = hard_case_shares(plan, Predictions(plan))
    table = frame(
        (paper, _with(block, shares.get((paper, slug, block.columns["seed"]), {})))
        for slug, cell in plan.cells.items()
        for block in blocks(read_record(paths.result(cell)))
        for paper in sorted(papers[slug])
    )
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False, write_page_checksum=True)
    return table
