from __future__ import annotations

import math

import pytest

from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.config.record import Budget, CellRecord, Metric, SeedRecord
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_text
from dpgraph.planning.resolve import resolve
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.reporting.aggregate import COLUMNS, aggregate, blocks, rows_of
from dpgraph.reporting.dictionary import calibrated, settings
from dpgraph.reporting.guarantee import NO_BUDGET
from dpgraph.reporting.records import ParsedRecord, read_record
from dpgraph.reporting.results import Results, read_results

KINDS = {
    "published": {"relation": "node-remove", "scope": "parameters", "unmet": ("lists: ran stable", "a; b")},
    "rigorous": {"relation": "node-null", "scope": "joint"},
}
REASON = "Lemma 2 is false"


def guarantee(mode, epsilon, reason=None):
    place = {"accountant": "a", "sampling": "s"}
    if epsilon is not None and math.isfinite(epsilon):
        place |= KINDS[mode]
    return Guarantee(mode=mode, epsilon=epsilon, reason=reason, delta=1e-5, **place).model_dump(mode="json")


def statement(published, rigorous, reason=None):
    return {
        "noise_std_over_clip": 2.0,
        "steps": 100,
        "published": guarantee("published", published),
        "rigorous": guarantee("rigorous", rigorous, reason),
    }


def seed(number, steps=(25, 50, 100)):
    metrics = [
        Metric(step=step, final=step == steps[-1], metric=name, value=step / 1000)
        for step in steps
        for name in ("accuracy/test", "accuracy/val")
    ]
    classes = [Metric(step=steps[-1], final=True, metric="class_accuracy/test", class_id=i, value=0.5) for i in (0, 2)]
    return SeedRecord(seed=number, status="ok", metrics=(*metrics, *classes), seconds=1.0, device="cpu")


@pytest.fixture
def cells(views_plan):
    """(paper's mechanism, rigorous, without privacy) of one task."""
    cells = {entry.method_id: entry.cell for entry in views_plan.entries_of("daigavane/fig2")}
    return cells["dp-gcn-published"], cells["dp-gcn"], cells["gcn"]


def table(record):
    rows = rows_of(("daigavane", block) for block in blocks(ParsedRecord(record, resolve(record.cell))))
    return rows.to_pandas().astype(COLUMNS)


def test_epsilons_are_those_of_the_step(cells):
    budgets = (
        Budget(step=25, eps_published=3.0, eps_rigorous=1.0),
        Budget(step=50, eps_published=5.0, eps_rigorous=2.0),
    )
    record = CellRecord(
        cell=cells[1], status="ok", statement=statement(9.0, 4.0), budgets=budgets, seeds=(seed(0), seed(1))
    )
    rows = table(record)
    assert len(rows) == 2 * 8
    by_step = rows.groupby("step")[["eps_published", "eps_rigorous"]].agg(["min", "max"])
    assert by_step.loc[25].tolist() == [3.0, 3.0, 1.0, 1.0]
    assert by_step.loc[50].tolist() == [5.0, 5.0, 2.0, 2.0]
    assert by_step.loc[100].tolist() == [9.0, 9.0, 4.0, 4.0]
    assert rows.loc[rows["class_id"] >= 0, "eps_rigorous"].eq(4.0).all()
    assert (rows["eps_rigorous_reason"] == "").all()


def test_other_relations_for_whole_run_are_stated_beside_its_own(cells):
    whole = statement(9.0, 4.0)
    whole["beside"] = [
        {**whole["rigorous"], "relation": "edge", "epsilon": 1.964},
        {**whole["rigorous"], "relation": "none", "scope": "none", "epsilon": None, "reason": REASON},
    ]
    rows = table(CellRecord(cell=cells[1], status="ok", statement=whole, seeds=(seed(0),)))
    assert set(rows["eps_beside"]) == {"edge 1.97 (joint)"}
    alone = table(CellRecord(cell=cells[1], status="ok", statement=statement(9.0, 4.0), seeds=(seed(0),)))
    assert set(alone["eps_beside"]) == {""}


def test_nothing_guaranteed_at_any_step_has_the_statements_reason(cells):
    budgets = (Budget(step=25, eps_published=3.0, eps_rigorous=None),)
    record = CellRecord(
        cell=cells[0], status="ok", statement=statement(9.0, None, REASON), budgets=budgets, seeds=(seed(0, (25, 100)),)
    )
    rows = table(record)
    assert rows["eps_rigorous"].isna().all()
    assert set(rows["eps_rigorous_reason"]) == {REASON}
    assert set(rows["eps_published_reason"]) == {""}


def test_a_step_without_a_budget_never_borrows_the_last_ones(cells):
    record = CellRecord(cell=cells[1], status="ok", statement=statement(9.0, 4.0), seeds=(seed(0),))
    early = table(record).query("step == 25")
    assert early[["eps_published", "eps_rigorous"]].isna().all(axis=None)
    assert set(early["eps_rigorous_reason"]) == {NO_BUDGET}


def test_without_privacy_every_step_is_infinite(cells):
    record = CellRecord(cell=cells[2], status="ok", statement=statement(math.inf, math.inf), seeds=(seed(0),))
    assert table(record)["eps_rigorous"].map(math.isinf).all()


def test_relation_scope_premises_and_what_is_not_covered(cells):
    """Columns of the statement; an early step without an epsilon has no relation either."""
    told = statement(9.0, 4.0) | {"uncovered": ["a vocabulary", "standardised; by all nodes"]}
    budgets = (Budget(step=25, eps_published=3.0, eps_rigorous=None),)
    rows = table(CellRecord(cell=cells[1], status="ok", statement=told, budgets=budgets, seeds=(seed(0),)))
    assert "adjacency" not in rows
    last = rows[rows["step"] == 100].iloc[0]
    assert (last["relation_published"], last["scope_published"]) == ("node-remove", "parameters")
    assert (last["relation_rigorous"], last["scope_rigorous"]) == ("node-null", "joint")
    assert last["published_unmet"] == "lists: ran stable; a, b"
    assert last["uncovered"] == "a vocabulary; standardised, by all nodes"
    early = rows[rows["step"] == 25].iloc[0]
    assert (early["relation_published"], early["relation_rigorous"]) == ("node-remove", "none")
    unknown = rows[rows["step"] == 50].iloc[0]
    assert (unknown["relation_published"], unknown["scope_rigorous"]) == ("none", "none")


def test_no_privacy_and_no_statement_have_no_relation(cells):
    public = table(CellRecord(cell=cells[2], status="ok", statement=statement(math.inf, math.inf), seeds=(seed(0),)))
    assert set(public["relation_rigorous"]) == set(public["scope_published"]) == {"none"}
    nothing = table(CellRecord(cell=cells[0], status="not run", reason="data not available"))
    assert set(nothing["relation_rigorous"]) == set(nothing["uncovered"]) == {""}


def test_a_record_that_tells_no_relation_is_none(cells, tmp_path):
    told = statement(9.0, 4.0)
    del told["rigorous"]["relation"]
    path = tmp_path / "result.json"
    path.write_text(CellRecord(cell=cells[1], status="ok", statement=told, seeds=(seed(0),)).model_dump_json())
    with pytest.raises(UserError, match=r"not a record \(rigorous.relation") as caught:
        read_record(path)
    assert str(caught.value).endswith("delete it and run again")


def test_failures_have_one_row_each(cells):
    nothing = CellRecord(cell=cells[0], status="not run", reason="data not available")
    (row,) = table(nothing).to_dict("records")
    assert (row["seed"], row["status"], row["reason"], row["metric"]) == (-1, "not run", "data not available", "")
    bad = SeedRecord(seed=3, status="failed", reason="diverged", seconds=2.0)
    half = CellRecord(cell=cells[0], status="ok", statement=statement(9.0, None, REASON), seeds=(seed(0), bad))
    last = table(half).iloc[-1]
    assert (last["seed"], last["status"], last["reason"], last["seconds"]) == (3, "failed", "diverged", 2.0)
    assert math.isnan(last["value"])


def test_a_seed_without_provenance_has_that_of_its_record(cells):
    """As every seed of a record that was written before seeds had their own."""
    own = seed(1).model_copy(update={"provenance": {"commit": "b", "processor": "B"}})
    made = {"commit": "a", "processor": "A"}
    record = CellRecord(cell=cells[2], status="ok", statement=statement(math.inf, math.inf), seeds=(seed(0), own),
                        provenance=made)  # fmt: skip
    rows = table(CellRecord.model_validate_json(record.model_dump_json()))
    assert rows.groupby("seed")["commit"].unique().explode().tolist() == ["a", "b"]
    assert rows.groupby("seed")["processor"].unique().explode().tolist() == ["A", "B"]
    nothing = CellRecord(cell=cells[0], status="not run", reason="data not available", provenance=made)
    assert table(nothing)["commit"].tolist() == ["a"]


def test_written_and_read_as_results(views_plan, tmp_path):
    """Every cell once, found again by entry and step."""
    config = Config(suite="views", results=str(tmp_path / "results"))
    plan = views_plan.__class__(config, views_plan.suite, views_plan.experiments, views_plan.entries)
    for cell in plan.cells.values():
        private = cell.privacy is not None
        told = statement(9.0, 4.0) if private else statement(math.inf, math.inf)
        budgets = tuple(Budget(step=step, eps_published=step / 10, eps_rigorous=step / 20) for step in (25, 50))
        record = CellRecord(
            cell=cell, status="ok", statement=told, budgets=budgets if private else (), seeds=(seed(0),)
        )
        write_text(Paths(config).result(cell), record.model_dump_json())
    path = tmp_path / "results.parquet"
    assert aggregate(plan, path) == 8 * len(plan.cells)
    more = settings() | calibrated()
    rows = read_results(path, tuple(more))
    kinds = dict(rows.dtypes.astype(str))
    assert kinds == COLUMNS | {name: column.kind for name, column in more.items()}
    assert dict(read_results(path).dtypes.astype(str)) == COLUMNS  # what tables are made of
    learnt = rows.groupby("cell")["training.learning_rate"].first()
    assert learnt.to_dict() == {slug: cell.training.learning_rate for slug, cell in plan.cells.items()}
    assert rows.groupby("cell", sort=False).ngroups == len(plan.cells)
    results = Results(rows)
    entry = next(entry for entry in plan.entries_of("daigavane/fig3b") if entry.method_id == "dp-gcn")
    reached = results.along_training(entry, "accuracy/test")
    assert [
        (step, outcome.guarantee.published.epsilon, outcome.guarantee.rigorous.epsilon) for step, outcome in reached
    ] == [
        (25, 2.5, 1.25),
        (50, 5.0, 2.5),
        (100, 9.0, 4.0),
    ]
    assert [outcome.values.tolist() for _, outcome in reached] == [[0.025], [0.05], [0.1]]
    assert results.by_class(entry).columns.tolist() == [0, 2]
