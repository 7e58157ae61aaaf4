from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpgraph.core.errors import UserError
from dpgraph.reporting.guarantee import COLUMN, PLACES, Promise, RunGuarantee, packed
from dpgraph.reporting.results import Results, read_results, summarise
from tests.reporting.conftest import WORKFLOW


def test_summary_by_hand():
    # 1, 2, 3 percent: mean 2, std 1, t(0.975, 2) = 4.302653, half width 4.302653 / sqrt(3)
    summary = summarise(np.array([0.01, 0.02, 0.03]))
    assert (summary.mean, summary.std, summary.n) == (pytest.approx(2), pytest.approx(1), 3)
    assert summary.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert summary.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)


def test_one_seed_has_no_spread():
    summary = summarise(np.array([0.5]))
    assert summary.mean == 50
    assert math.isnan(summary.std)
    assert math.isnan(summary.low)


def test_only_the_last_step_of_the_metric_counts(plan, results):
    entry = next(entry for entry in plan.entries if entry.method_id == "dp-gcn-1")
    outcome = Results(results).outcome(entry, "accuracy/test")
    assert outcome.ok
    assert len(outcome.values) == 3
    assert outcome.values.min() > 0.5  # steps before the last and validation have 0.01 and 0.02 in the fixture
    assert outcome.guarantee.rigorous.epsilon == pytest.approx(0.999 * entry.target_epsilon)


def test_failure_carries_its_reason(plan, results):
    entry = next(entry for entry in plan.entries if (entry.method_id, entry.task_id) == ("gcn-2", "sbm-clustered"))
    outcome = Results(results).outcome(entry, "accuracy/test")
    assert outcome.why_not == "failed: diverged: non-finite loss at step 41"


def test_another_paper_or_cell_is_not_mixed_in(plan, results):
    entry = plan.entries[0]
    other = results[results["cell"] == entry.cell.slug].assign(paper="huang")
    assert not Results(other).outcome(entry, "accuracy/test").ok


def test_seeds_that_failed_leave_the_others(plan, rows_of, as_frame):
    entry = plan.entries[0]
    rows = rows_of(entry)
    for row in rows:
        if row["seed"] == 1:
            row |= {"status": "failed", "reason": "out of memory", "metric": "", "value": math.nan}
    outcome = Results(as_frame(rows)).outcome(entry, "accuracy/test")
    assert list(outcome.values.index) == [0, 2]
    assert outcome.reason == "out of memory"


def test_failures_of_seeds_that_are_not_the_entrys_are_not_its(plan, rows_of, as_frame):
    entry = plan.entries[0]
    rows = rows_of(entry)
    other = rows[0] | {"seed": 99, "status": "failed", "reason": "out of memory", "metric": "", "value": math.nan}
    assert Results(as_frame([*rows, other])).outcome(entry, "accuracy/test").reason == ""


def test_the_weakest_guarantee_of_the_seeds_counts(plan, rows_of, as_frame):
    entry = next(entry for entry in plan.entries if entry.method_id == "dp-gcn-1")
    rows = rows_of(entry)
    for row in rows:
        row["eps_rigorous"] = 3.0 + row["seed"]
    assert Results(as_frame(rows)).outcome(entry, "accuracy/test").guarantee.rigorous.epsilon == 5.0


def test_two_final_values_of_a_seed_are_refused(plan, rows_of, as_frame):
    entry = plan.entries[0]
    frame = as_frame(rows_of(entry) + rows_of(entry, mean=0.5))
    with pytest.raises(UserError, match="more than one accuracy/test of one seed at one step"):
        Results(frame).outcome(entry, "accuracy/test")


def test_round_trip_through_parquet(tmp_path, results):
    path = tmp_path / "results.parquet"
    results.to_parquet(path, index=False)
    read = read_results(path)
    pd.testing.assert_series_equal(read["value"], results["value"])


@pytest.mark.parametrize("column", ["eps_rigorous", "final", "reason"])
def test_missing_column_is_named(tmp_path, results, column):
    path = tmp_path / "results.parquet"
    results.drop(columns=column).to_parquet(path)
    with pytest.raises(UserError, match=rf"results\.parquet: column {column} is missing"):
        read_results(path)


def test_no_file_and_no_parquet(tmp_path):
    with pytest.raises(UserError, match=r"none\.parquet: no such file: run `dpgraph run .*none\.parquet` first"):
        read_results(tmp_path / "none.parquet")
    bad = tmp_path / "bad.parquet"
    bad.write_text("a,b")
    with pytest.raises(UserError, match="not a parquet file"):
        read_results(bad)


def test_rows_with_flat_columns_and_with_the_struct_are_one_frame(tmp_path):
    flat, struct = WORKFLOW.parent / "docs/results/variance/rows.parquet", tmp_path / "rows.parquet"
    pq.write_table(packed(pq.read_table(flat)), struct)
    names = pq.read_schema(struct).names
    assert COLUMN in names
    assert not set(PLACES).intersection(names)
    pd.testing.assert_frame_equal(read_results(struct), read_results(flat))


def test_a_field_of_a_guarantee_that_is_not_known_is_refused(tmp_path, results):
    path = tmp_path / "results.parquet"
    table = packed(pa.Table.from_pandas(results))
    kept = table[COLUMN].combine_chunks()
    parts = [*kept.flatten(), pa.array(["?"] * len(kept))]
    whole = pa.StructArray.from_arrays(parts, [*(one.name for one in kept.type), "hoped_for"])
    pq.write_table(table.set_column(table.column_names.index(COLUMN), COLUMN, whole), path)
    with pytest.raises(UserError, match=r"results\.parquet: column guarantee\.hoped_for: unknown field"):
        read_results(path)


def test_columns_and_guarantee_are_two_views_of_one_thing():
    rigorous = Promise(2.0, relation="node-null", scope="joint")
    own = RunGuarantee(Promise(reason="no paper"), rigorous, uncovered="a vocabulary", delta=1e-5)
    assert list(own.columns) == list(PLACES)
    assert (own.columns["eps_rigorous"], own.columns["scope_rigorous"]) == (2.0, "joint")
    again = RunGuarantee.from_columns(own.columns)
    assert again.columns == pytest.approx(own.columns, nan_ok=True)
