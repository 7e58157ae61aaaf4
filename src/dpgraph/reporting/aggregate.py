"""The results of a suite as one table: a row per paper, cell, seed, metric and class.

Tables, figures and claims are functions of these rows. So there are rows of what no cell has: facts of graphs (their
statistics, class frequencies) without a cell, and guarantees of calibrations whose cells are not trained.

Ten thousand cells of ten seeds have millions of rows: records are read one by one, texts are numbered, and rows are
written in groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpgraph.config.cell import Cell
from dpgraph.config.expansion import flat
from dpgraph.config.record import Metric, SeedRecord
from dpgraph.core.errors import UserError
from dpgraph.core.files import atomic_path, read_json
from dpgraph.data.registry import home_of, registry
from dpgraph.families.registry import spec, specs
from dpgraph.planning.cost import left_out_reasons
from dpgraph.planning.plan import Plan
from dpgraph.privacy.calibration import Calibration
from dpgraph.reporting import dictionary, protection
from dpgraph.reporting.guarantee import RunGuarantee, packed
from dpgraph.reporting.records import ParsedRecord, RecordedStatement, read_record
from dpgraph.reporting.stored import stored_graph
from dpgraph.reporting.views.registry import DerivedMetric, SuiteFiles, derived_metrics, inputs_of

COLUMNS: dict[str, str] = {name: column.kind for name, column in dictionary.COLUMNS.items()}
BY_METRIC = ("metric", "class_id", "value")  # all other columns are the same in all rows of a seed and step
ROWS_AT_A_TIME = 2**17
# docs/privacy/votes.md#conditions-and-what-holds-them: what no statement of a mechanism knows
RULED = "settings by a public rule of the registry's mean degree and words, counted on the same files"
BOUNDED = "the bound on degrees: set with the largest degree of the same files in view"


def _cell_columns(cell: Cell, statement: RecordedStatement, slug: str) -> dict[str, Any]:
    return {
        "cell": slug,
        **{name: getattr(cell.task, name) for name in ("dataset", "setting", "split", "features")},
        "method": cell.method,
        "variant": cell.privacy.variant if cell.privacy is not None else "none",
        "architecture": cell.network[0],
        "hops": cell.network[1],
        "optimizer": cell.training.optimizer,
        "epsilon_target": dictionary.number(getattr(cell.privacy, "epsilon", None)),
        **RunGuarantee.stated(statement).as_claimed_by(cell.method).columns,
        "fallback": "" if (known := specs().get(cell.method)) is None else known.fallback(statement.mechanism),
        "noise_std_over_clip": dictionary.number(statement.noise_std_over_clip),
        "steps": statement.steps,
        **dictionary.setting_values(cell),
        **statement.calibrated,
    }


NO_SEED = SeedRecord(seed=-1, status="failed", seconds=math.nan, steps_per_second=math.nan)
NO_METRICS: dict[str, Any] = {"step": 0, "final": True}
FROM_PROVENANCE = ("processor", "commit")
NO_PROVENANCE = dict.fromkeys(FROM_PROVENANCE, "")
CALIBRATED = "calibrated"  # metric of the row of a calibration
GRAPH, TRAIN_NODES = "graph", "graph/train_nodes"  # metrics of facts of graphs start with the first one


@dataclass(frozen=True)
class MetricRows:
    """Rows of one record that differ in their metric only; no metric: one row that states why."""

    columns: dict[str, Any]
    metrics: Sequence[Metric | DerivedMetric] = (DerivedMetric("", math.nan),)

    def with_metrics(self, more: Iterable[DerivedMetric]) -> Iterator[MetricRows]:
        """Yield the block of a seed's last step with more metrics; any other one as it is."""
        if not self.columns["final"] or not self.metrics[0].metric:
            yield self
            return
        yield MetricRows(self.columns, (*self.metrics, *(one for one in more if not one.reason)))
        yield from (MetricRows(self.columns | {"reason": one.reason}, (one,)) for one in more if one.reason)


def blocks(read: ParsedRecord, slug: str | None = None) -> Iterator[MetricRows]:
    """Yield the rows of one record without their paper; a cell or a seed without metrics has one row that states why.

    Both epsilons are those of the row's step: the statement's at the last one, the record's budgets before it. `slug`
    is the cell's, where it is known: it takes longer to compute than all the rest.
    """
    record = read.record
    columns = _cell_columns(read.cell, read.statement, read.cell.slug if slug is None else slug)
    columns |= _made(record.provenance)
    if record.status != "ok":
        failed = {"status": record.status, "reason": record.reason}
        yield MetricRows({**columns, **_seed_columns(NO_SEED), **NO_METRICS, **failed})
    budgets = _budgets(read, columns) if not columns["checks"] else None
    for seed in record.seeds:
        own = {**columns, **_seed_columns(seed), **_made(seed.provenance or record.provenance)}
        if not seed.metrics and record.status == "ok":
            yield MetricRows(own | NO_METRICS)
        for (step, final), metrics in groupby(seed.metrics, key=attrgetter("step", "final")):
            at = own | {"step": step, "final": final}
            yield MetricRows(at if final or budgets is None else at | budgets(step), tuple(metrics))


def _made(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns on the code and the machine that made a seed, or a record without seeds."""
    return {name: str(provenance.get(name, "")) for name in FROM_PROVENANCE}


def _seed_columns(seed: SeedRecord) -> dict[str, Any]:
    return {name: getattr(seed, name) for name in SEED_COLUMNS}


SEED_COLUMNS = tuple(name for name in SeedRecord.model_fields if name not in ("metrics", "notes", "provenance"))


def _budgets(read: ParsedRecord, columns: dict[str, Any]) -> Callable[[int], dict[str, Any]] | None:
    """Return what gives the guarantee before the last step. None: without privacy all steps have the statement's."""
    if read.cell.privacy is None:
        return None
    own = RunGuarantee.from_columns(columns)
    epsilons = {one.step: {"published": one.eps_published, "rigorous": one.eps_rigorous} for one in read.record.budgets}
    return lambda step: own.at_step(epsilons.get(step, {})).columns


def _schema() -> pa.Schema:
    """Return the schema of rows. Texts go by number, as Parquet stores them; pandas reads the types back."""
    more = dictionary.settings() | dictionary.calibrated()
    every = COLUMNS | {name: column.kind for name, column in more.items()}
    empty = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in every.items()})
    types = {"string": pa.dictionary(pa.int32(), pa.string()), "bool": pa.bool_()}
    types |= {"int64": pa.int64(), "float64": pa.float64()}
    fields = [pa.field(name, types[dtype]) for name, dtype in every.items()]
    return pa.schema(fields, metadata=pa.Schema.from_pandas(empty, preserve_index=False).metadata)


SCHEMA = _schema()
STORED = packed(SCHEMA.empty_table()).schema


def rows_of(parts: Iterable[tuple[str, MetricRows]]) -> pa.Table:
    """Return the rows of (paper, block) pairs, block by block: records with many evaluations have many rows."""
    parts = list(parts)
    repeated = np.repeat(np.arange(len(parts), dtype=np.int32), [len(block.metrics) for _, block in parts])
    own = {name: [getattr(one, name) for _, block in parts for one in block.metrics] for name in BY_METRIC}
    own["paper"] = [paper for paper, _ in parts]
    arrays = []
    for column in SCHEMA:
        name = column.name
        values = own[name] if name in own else [block.columns[name] for _, block in parts]
        texts = pa.types.is_dictionary(column.type)
        array = _numbered(values) if texts else pa.array(values, column.type)
        arrays.append(array if name in BY_METRIC else array.take(pa.array(repeated)))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _numbered(texts: list[str]) -> pa.DictionaryArray:
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    numbers = np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(list(known), pa.string()))


def aggregate(plan: Plan, path: Path) -> int:
    """Write all rows of the plan as Parquet, and next to it what the columns are; return the number of rows.

    A cell that two papers use has rows for both. Metrics that a view derives from predictions are added at the last
    step.
    """
    write_dictionary(path)
    with atomic_path(path) as temporary:
        return _write(_parts(plan), temporary)


def own_rows(plan: Plan, artefact_id: str) -> BytesIO:
    """Return the rows that an artefact reads where it does not read results.parquet, as Parquet."""
    reads = inputs_of(plan.artefacts[artefact_id].view).reads
    parts: list[tuple[str, MetricRows]] = []
    if SuiteFiles.CELLS in reads:
        parts += _of_cells(replace(plan, entries=tuple(plan.entries_of(artefact_id))))
    if SuiteFiles.CALIBRATIONS in reads:
        parts += _of_calibrations(plan, [artefact_id])
    if SuiteFiles.GRAPHS in reads:
        parts += _of_graphs(plan, [artefact_id])
    made = BytesIO()
    _write(parts, made)
    made.seek(0)
    return made


def _write(parts: Iterable[tuple[str, MetricRows]], where: Path | IO[bytes]) -> int:
    count, waiting, group = 0, 0, list[tuple[str, MetricRows]]()
    # without Arrow's own schema readers get plain texts, not categories
    with pq.ParquetWriter(where, STORED, store_schema=False, write_page_checksum=True) as writer:
        for paper, block in parts:
            group.append((paper, block))
            waiting += len(block.metrics)
            if waiting >= ROWS_AT_A_TIME:
                writer.write_table(packed(rows_of(group)))
                count, waiting, group = count + waiting, 0, []
        if group or not count:
            writer.write_table(packed(rows_of(group)))
        writer.add_key_value_metadata(SCHEMA.metadata)
    return count + waiting


def write_dictionary(path: Path) -> None:
    """Write results.columns.csv next to results.parquet: every column with its type and what it is."""
    rows = pd.DataFrame(dictionary.dictionary(), columns=["column", "type", "description"])
    with atomic_path(path.with_suffix(".columns.csv")) as temporary:
        rows.to_csv(temporary, index=False, lineterminator="\n")


def _parts(plan: Plan) -> Iterator[tuple[str, MetricRows]]:
    """Yield (paper, block) of everything that a table, figure or claim of the plan is made from."""
    yield from _of_cells(plan)
    aggregated = {name: inputs_of(artefact.view).aggregated for name, artefact in plan.artefacts.items()}
    yield from _of_calibrations(plan, [name for name, kinds in aggregated.items() if SuiteFiles.CALIBRATIONS in kinds])
    yield from _of_graphs(plan, [name for name, kinds in aggregated.items() if SuiteFiles.GRAPHS in kinds])


def _of_cells(plan: Plan) -> Iterator[tuple[str, MetricRows]]:
    papers: dict[str, set[str]] = {}
    for entry in plan.entries:
        papers.setdefault(entry.cell.slug, set()).add(entry.paper)
    derived = derived_metrics(plan)
    for slug, cell in plan.cells.items():
        read = read_record(plan.paths.result(cell))
        ruled = (RULED,) * (slug in plan.by_public_rule) + (BOUNDED,) * _has_bound_of_registry(cell)
        for block in blocks(read, slug if _same(read.cell, cell) else None):
            block.columns["uncovered"] = protection.joined([*protection.parted(block.columns["uncovered"]), *ruled])
            for paper in sorted(papers[slug]):
                more = derived.get((paper, slug, block.columns["seed"]), ())
                yield from ((paper, one) for one in block.with_metrics(more))
    for slug, reason in left_out_reasons(plan).items():
        columns = _cell_columns(plan.left_out[slug].cell, RecordedStatement(), slug) | NO_RUN
        block = MetricRows(columns | {"status": "not run", "reason": reason})
        yield from ((paper, block) for paper in sorted(papers[slug]))


def _has_bound_of_registry(cell: Cell) -> bool:
    """Return whether a bound on degrees is the one that the package's registry has of the data set."""
    own = home_of(cell.task.dataset) is None
    bound = getattr(cell.privacy, "degree_bound", None)
    return bound is not None and own and bound == registry()[cell.task.dataset].degree_bound


NO_RUN: dict[str, Any] = {name: getattr(NO_SEED, name) for name in SEED_COLUMNS} | NO_METRICS | NO_PROVENANCE


def _same(recorded: Cell, cell: Cell) -> bool:
    return recorded.model_copy(update={"seeds": cell.seeds}) == cell


def _of_calibrations(plan: Plan, artefacts: Iterable[str]) -> Iterator[tuple[str, MetricRows]]:
    """Yield a row for each private cell of the artefacts whose calibration is there."""
    entries = {(one.paper, one.cell.slug): one for name in artefacts for one in plan.entries_of(name)}
    for (paper, slug), entry in entries.items():
        path = plan.paths.calibration(entry.cell)
        if path is None or not path.is_file():
            continue
        statement, told = RecordedStatement(), {"status": "ok", "reason": ""}
        try:
            header = read_json(path)
            if isinstance(header, dict) and "statement" not in header:
                told = {"status": "not run", "reason": str(header.get("reason", "data not available"))}
            else:
                kind = spec(entry.cell.method).mechanism_class(entry.cell)
                solved = Calibration.read(path, kind).statement
                statement = RecordedStatement.model_validate(solved.model_dump(mode="json"))
        except (OSError, ValueError, RecursionError):
            raise UserError(f"{path}: not a calibration") from None
        columns = _cell_columns(entry.cell, statement, slug) | NO_RUN | told
        yield paper, MetricRows(columns, (DerivedMetric(CALIBRATED, math.nan),))


def _of_graphs(plan: Plan, artefacts: Iterable[str]) -> Iterator[tuple[str, MetricRows]]:
    """Yield the facts of the artefacts' graphs, each graph once: numbers of graph.json, and class frequencies.

    Class frequencies are those of labelled training nodes of the first split, where a view orders classes by them.
    """
    ordered = [name for name in artefacts if plan.artefacts[name].view == "class-wise"]
    by_class = {task for name in ordered for _, task in plan.tasks_of(name).values()}
    tasks = {task: task_id for name in artefacts for task_id, (_, task) in plan.tasks_of(name).items()}
    for task, task_id in tasks.items():
        path = plan.paths.graph_record(task)
        if not path.is_file():
            continue
        record = read_json(path)
        columns = EMPTY | {"dataset": task.dataset, "setting": task.setting, "split": task.split}
        columns |= {"features": task.features, "final": True, "seed": -1, "status": "ok"}
        if "nodes" not in (record.get("statistics") or {}):
            why = f": {record['reason']}" if record.get("reason") else ""
            columns |= {"status": "not run", "reason": f"data not available{why}"}
        facts = {"counted": (record.get("meta") or {}).get("counted"), **(record.get("statistics") or {})}
        rows = [DerivedMetric(name, value) for name, value in graph_numbers(facts).items()]
        if task in by_class and (graph := stored_graph(plan, task_id)) is not None:
            labels = np.asarray(graph.labels)[graph.train_nodes]
            counts = np.bincount(labels[labels >= 0], minlength=graph.num_classes)
            rows += [DerivedMetric(TRAIN_NODES, float(count), number) for number, count in enumerate(counts)]
        yield "", MetricRows(columns, rows or [DerivedMetric(GRAPH, math.nan)])


def graph_numbers(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of nested facts of a graph by metric, `graph/split_sizes/train`."""
    numbers = flat({GRAPH: facts}, by="/")
    return {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}


EMPTY: dict[str, Any] = {
    column.name: "" if pa.types.is_dictionary(column.type) else math.nan if pa.types.is_floating(column.type) else 0
    for column in SCHEMA
}
