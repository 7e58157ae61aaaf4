"""All records of a suite as one table: a row per paper, cell, seed, metric and class.

Ten thousand cells of ten seeds have millions of rows: records are read one by one, metrics stay plain lists, texts are
numbered, and rows are written in groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpgraph.experiments.cell import Cell
from dpgraph.experiments.paths import Paths
from dpgraph.experiments.record import SeedRecord
from dpgraph.files import atomic_path
from dpgraph.methods.registry import specs
from dpgraph.planning.cost import left_out_reasons
from dpgraph.planning.plan import Plan
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting import dictionary, protection
from dpgraph.reporting.claimed import with_claims
from dpgraph.reporting.records import ParsedRecord, RecordedStatement, read_record
from dpgraph.reporting.views.registry import derived_metrics

COLUMNS: dict[str, str] = {name: column.kind for name, column in dictionary.COLUMNS.items()}
NAN = float("nan")
BY_METRIC = ("metric", "class_id", "value")  # all other columns are the same in all rows of a seed and step
ROWS_AT_A_TIME = 2**17
# docs/privacy.md, 12.4: what no statement of a mechanism knows
RULED = "settings by a public rule of the registry's mean degree and words, counted on the same files"


def _number(value: Any) -> float:
    return NAN if value is None else float(value)


def _cell_columns(cell: Cell, statement: RecordedStatement, slug: str) -> dict[str, Any]:
    published, rigorous = statement.published, statement.rigorous
    columns = {
        "cell": slug,
        "dataset": cell.task.dataset,
        "setting": cell.task.setting,
        "split": cell.task.split,
        "features": cell.task.features,
        "method": cell.method,
        "variant": cell.privacy.variant if cell.privacy is not None else "none",
        "architecture": cell.network[0],
        "hops": cell.network[1],
        "optimizer": cell.training.optimizer,
        "epsilon_target": _number(cell.privacy.epsilon if cell.privacy is not None else None),
        "delta": _number(rigorous.delta),
        "eps_published": _number(published.epsilon),
        "eps_published_reason": published.reason or "",
        "eps_rigorous": _number(rigorous.epsilon),
        "eps_rigorous_reason": rigorous.reason or "",
        "eps_beside": protection.joined(
            f"{one.relation} {one.epsilon:.3g} ({one.scope})" for one in statement.beside if one.epsilon is not None
        ),
        **protection.columns(published, rigorous, statement.uncovered),
        "fallback": "" if (known := specs().get(cell.method)) is None else known.fallback(statement.mechanism),
        "noise_std_over_clip": _number(statement.noise_std_over_clip),
        "steps": statement.steps,
        **dictionary.setting_values(cell),
        **statement.calibrated,
    }
    return with_claims(cell.method, columns)


NO_SEED = SeedRecord(seed=-1, status="failed", seconds=NAN, steps_per_second=NAN, roots_per_second=NAN)
NO_BUDGET = "no budget was recorded at this step"
NO_METRICS: dict[str, Any] = {"step": 0, "final": True}


@dataclass(frozen=True)
class MetricRows:
    """Rows of one record that differ in their metric only; no metric: one row that states why."""

    columns: dict[str, Any]
    metrics: tuple[str, ...] = ("",)
    class_ids: tuple[int, ...] = (-1,)
    values: tuple[float, ...] = (NAN,)

    def with_metrics(self, more: Mapping[str, float]) -> MetricRows:
        """The block of a seed's last step with more metrics; any other one as it is."""
        if not more or not self.columns["final"] or not self.metrics[0]:
            return self
        return MetricRows(
            self.columns,
            (*self.metrics, *more),
            (*self.class_ids, *([-1] * len(more))),
            (*self.values, *more.values()),
        )


def blocks(read: ParsedRecord, slug: str | None = None) -> Iterator[MetricRows]:
    """Rows of one record without their paper; a cell or a seed without metrics has one row that states why.

    Both epsilons are those of the row's step: the statement's at the last one, the record's budgets before it. `slug`
    is the cell's, where it is known: it takes longer to compute than all the rest.
    """
    record = read.record
    columns = _cell_columns(read.cell, read.statement, read.cell.slug if slug is None else slug)
    columns["commit"] = str(record.provenance.get("commit", ""))
    if record.status != "ok":
        failed = {"status": record.status, "reason": record.reason}
        yield MetricRows({**columns, **_seed_columns(NO_SEED), **NO_METRICS, **failed})
    budgets = _budgets(read, columns) if not columns["checks"] else None
    for seed, metrics in zip(record.seeds, read.metrics, strict=True):
        own = {**columns, **_seed_columns(seed)}
        if not metrics.metric and record.status == "ok":
            yield MetricRows(own | NO_METRICS)
        start = 0
        for (step, final), rows in groupby(zip(metrics.step, metrics.final, strict=True)):
            end = start + sum(1 for _ in rows)
            at = own | {"step": step, "final": final}
            yield MetricRows(
                at if final or budgets is None else at | budgets.get(step, UNKNOWN),
                tuple(metrics.metric[start:end]),
                tuple(metrics.class_id[start:end]),
                tuple(metrics.value[start:end]),
            )
            start = end


def _seed_columns(seed: SeedRecord) -> dict[str, Any]:
    return {name: getattr(seed, name) for name in SEED_COLUMNS}


SEED_COLUMNS = tuple(name for name in SeedRecord.model_fields if name not in ("metrics", "notes"))
NOTHING: dict[str, str] = {f"relation_{mode}": Relation.NONE.value for mode in protection.MODES} | {
    f"scope_{mode}": Scope.NONE.value for mode in protection.MODES
}
UNKNOWN: dict[str, Any] = (
    {f"eps_{mode}": NAN for mode in protection.MODES}
    | {f"eps_{mode}_reason": NO_BUDGET for mode in protection.MODES}
    | NOTHING
)


def _budgets(read: ParsedRecord, columns: dict[str, Any]) -> dict[int, dict[str, Any]] | None:
    """Epsilons and reasons by step before the last. None: without privacy all steps have the statement's."""
    if read.cell.privacy is None:
        return None
    by_step: dict[int, dict[str, Any]] = {}
    for budget in read.record.budgets:
        at: dict[str, Any] = {}
        by_step[budget.step] = at
        for mode in protection.MODES:
            value = getattr(budget, f"eps_{mode}")
            at[f"eps_{mode}"] = _number(value)
            at[f"eps_{mode}_reason"] = (columns[f"eps_{mode}_reason"] or NO_BUDGET) if value is None else ""
            if value is None:
                at |= {name: NOTHING[name] for name in (f"relation_{mode}", f"scope_{mode}")}
    return by_step


def _schema() -> pa.Schema:
    """Texts by number, which is how Parquet stores them; pandas reads the types back."""
    more = dictionary.settings() | dictionary.calibrated()
    every = COLUMNS | {name: column.kind for name, column in more.items()}
    empty = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in every.items()})
    types = {"string": pa.dictionary(pa.int32(), pa.string()), "bool": pa.bool_()}
    types |= {"int64": pa.int64(), "float64": pa.float64()}
    fields = [pa.field(name, types[dtype]) for name, dtype in every.items()]
    return pa.schema(fields, metadata=pa.Schema.from_pandas(empty, preserve_index=False).metadata)


SCHEMA = _schema()


def rows_of(parts: Iterable[tuple[str, MetricRows]]) -> pa.Table:
    """Rows of (paper, block) pairs, repeated block by block: records with many evaluations have many rows."""
    parts = list(parts)
    repeated = np.repeat(np.arange(len(parts), dtype=np.int32), [len(block.metrics) for _, block in parts])
    arrays = []
    for column in SCHEMA:
        name = column.name
        if name == "metric":
            values: list[Any] = [value for _, block in parts for value in block.metrics]
        elif name == "class_id":
            values = [value for _, block in parts for value in block.class_ids]
        elif name == "value":
            values = [value for _, block in parts for value in block.values]
        elif name == "paper":
            values = [paper for paper, _ in parts]
        else:
            values = [block.columns[name] for _, block in parts]
        texts = pa.types.is_dictionary(column.type)
        array = _numbered(values) if texts else pa.array(values, column.type)
        arrays.append(array if name in BY_METRIC else array.take(pa.array(repeated)))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _numbered(texts: list[str]) -> pa.DictionaryArray:
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    numbers = np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(list(known), pa.string()))


def aggregate(plan: Plan, path: Path) -> int:
    """Read every record of the plan and write the table as Parquet; a cell that two papers use has rows for both.

    Metrics that a view derives from predictions of several cells are added at the last step. A file next to it says
    what the columns are. Returns the number of rows.
    """
    write_dictionary(path)
    count, waiting, parts = 0, 0, list[tuple[str, MetricRows]]()
    with (
        atomic_path(path) as temporary,
        # without Arrow's own schema readers get plain texts, not categories
        pq.ParquetWriter(temporary, SCHEMA, store_schema=False, write_page_checksum=True) as writer,
    ):
        for paper, block in _parts(plan):
            parts.append((paper, block))
            waiting += len(block.metrics)
            if waiting >= ROWS_AT_A_TIME:
                writer.write_table(rows_of(parts))
                count, waiting, parts = count + waiting, 0, []
        if parts or not count:
            writer.write_table(rows_of(parts))
        writer.add_key_value_metadata(SCHEMA.metadata)
    return count + waiting


def write_dictionary(path: Path) -> None:
    """results.columns.csv next to results.parquet: every column with its type and what it is."""
    rows = pd.DataFrame(dictionary.dictionary(), columns=["column", "type", "description"])
    with atomic_path(path.with_suffix(".columns.csv")) as temporary:
        rows.to_csv(temporary, index=False, lineterminator="\n")


def _parts(plan: Plan) -> Iterator[tuple[str, MetricRows]]:
    paths = Paths(plan.config)
    papers: dict[str, set[str]] = {}
    for entry in plan.entries:
        papers.setdefault(entry.cell.slug, set()).add(entry.paper)
    derived = derived_metrics(plan)
    for slug, cell in plan.cells.items():
        read = read_record(paths.result(cell))
        ruled = (RULED,) if slug in plan.by_public_rule else ()
        for block in blocks(read, slug if _same(read.cell, cell) else None):
            block.columns["uncovered"] = protection.joined([*protection.parted(block.columns["uncovered"]), *ruled])
            for paper in sorted(papers[slug]):
                yield paper, block.with_metrics(derived.get((paper, slug, block.columns["seed"]), {}))
    for slug, reason in left_out_reasons(plan).items():
        block = _left_out(plan.left_out[slug].cell, slug, reason)
        yield from ((paper, block) for paper in sorted(papers[slug]))


def _same(recorded: Cell, cell: Cell) -> bool:
    return recorded.model_copy(update={"seeds": cell.seeds}) == cell


def _left_out(cell: Cell, slug: str, reason: str) -> MetricRows:
    """The row of a cell that the suite shows and does not run."""
    columns = _cell_columns(cell, RecordedStatement(), slug) | _seed_columns(NO_SEED) | NO_METRICS
    return MetricRows({**columns, "commit": "", "status": "not run", "reason": reason})
