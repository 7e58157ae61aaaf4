"""Aggregation of a synthetic suite: in groups of rows it loses and moves nothing, and damaged records are named."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dpgraph.config.paths import Paths
from dpgraph.config.record import CellRecord
from dpgraph.core.errors import UserError
from dpgraph.data.registry import entry
from dpgraph.planning.resolve import resolve
from dpgraph.reporting import aggregate as aggregation
from dpgraph.reporting.results import read_results
from tests.synthetic_suite import PER_VALUE, STEPS, synthetic_plan, write_records

SEEDS = 2


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Two values: the first with an evaluation at twelve steps."""
    plan, _ = synthetic_plan(tmp_path_factory.mktemp("bench"), cells=PER_VALUE + 1, seeds=SEEDS)
    write_records(plan)
    return plan


def test_records_are_those_of_the_cells(plan):
    assert len(plan.cells) == 2 * PER_VALUE
    for cell in list(plan.cells.values())[::17]:
        record = CellRecord.model_validate_json(Paths(plan.config).result(cell).read_bytes())
        assert resolve(record.cell) == cell
        assert resolve(record.cell).slug == cell.slug
        assert [seed.seed for seed in record.seeds] == list(range(SEEDS))


def test_what_a_public_rule_read_is_said_beside_its_results(plan, tmp_path, monkeypatch):
    slug = next(slug for slug, cell in plan.cells.items() if cell.privacy is not None)
    monkeypatch.setitem(vars(plan), "by_public_rule", frozenset([slug]))
    aggregation.aggregate(plan, tmp_path / "results.parquet")
    found = read_results(tmp_path / "results.parquet").groupby("cell")["uncovered"].unique()
    assert all(aggregation.RULED in text for text in found[slug])
    assert not any(aggregation.RULED in text for name, texts in found.items() if name != slug for text in texts)


def test_a_bound_on_degrees_that_the_registry_has_is_said_beside_its_results(plan, monkeypatch):
    cell = next(cell for cell in plan.cells.values() if cell.privacy is not None)
    known = entry(cell.task.dataset).model_copy(update={"degree_bound": 9})
    monkeypatch.setattr(aggregation, "registry", lambda: {cell.task.dataset: known})
    for bound, said in ((9, True), (10, False), (None, False)):
        bounded = SimpleNamespace(task=cell.task, privacy=SimpleNamespace(degree_bound=bound))
        assert aggregation._has_bound_of_registry(bounded) == said
    monkeypatch.setattr(aggregation, "home_of", lambda name: "mine")
    assert not aggregation._has_bound_of_registry(
        SimpleNamespace(task=cell.task, privacy=SimpleNamespace(degree_bound=9))
    )


def test_every_metric_of_every_record_is_a_row(plan, tmp_path, monkeypatch):
    path = tmp_path / "results.parquet"
    count = aggregation.aggregate(plan, path)
    found = read_results(path)
    expected = {
        slug: SEEDS * (6 * cell.training.evaluations + entry(cell.task.dataset).expected.classes)
        for slug, cell in plan.cells.items()
    }
    assert found.groupby("cell", sort=False).size().to_dict() == expected
    assert count == len(found) == sum(expected.values())
    slug, cell = next(item for item in plan.cells.items() if item[1].training.evaluations > 1 and item[1].privacy)
    record = CellRecord.model_validate_json(Paths(plan.config).result(cell).read_bytes())
    rows = found[found["cell"] == slug]
    told = [
        (seed.seed, metric.step, metric.final, metric.metric, metric.class_id, metric.value)
        for seed in record.seeds
        for metric in seed.metrics
    ]
    named = rows[["seed", "step", "final", "metric", "class_id", "value"]]
    assert list(named.itertuples(index=False, name=None)) == told
    early = rows[rows["step"] < STEPS]
    assert early["eps_published"].tolist() == (early["step"] / 10).tolist()
    assert set(rows.loc[rows["final"], "eps_published"]) == {4.0}

    monkeypatch.setattr(aggregation, "ROWS_AT_A_TIME", 1000)
    parts = tmp_path / "parts.parquet"
    aggregation.aggregate(plan, parts)
    assert pq.ParquetFile(parts).num_row_groups > 3
    pd.testing.assert_frame_equal(read_results(parts), found)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], "EOF"),
        (lambda text: text.replace('"step": 120,', "", 1), "metrics.0.step: missing"),
        (lambda text: text.replace('"step": 120', '"step": "soon"', 1), "step=soon: expected a valid integer"),
        (lambda text: "[]", "expected a valid dictionary"),
        (lambda text: text.replace('"status": "ok"', '"status": "good"', 1), "status=good"),
        (lambda text: re.sub('"method":"[a-z-]+"', '"method":"magic"', text, count=1), "method=magic: expected one of"),
        (lambda text: text.replace('"steps":', '"num_splits":3,"steps":', 1), "training.num_splits=3: unknown key"),
    ],
    ids=["half", "a field is missing", "a text", "a list", "another status", "no method", "no setting of the method"],
)
def test_what_is_no_record_is_named(plan, tmp_path, damage, reason):
    cell = next(cell for cell in plan.cells.values() if cell.training.evaluations == 1)
    path = tmp_path / "result.json"
    path.write_text(damage(Paths(plan.config).result(cell).read_text()))
    with pytest.raises(UserError, match=reason) as caught:
        aggregation.read_record(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: not a record (")
    with pytest.raises(UserError, match=r"absent: no such record; its training job has not run: run `dpgraph run`"):
        aggregation.read_record(tmp_path / "absent")
