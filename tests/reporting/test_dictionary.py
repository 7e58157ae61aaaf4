"""Columns of results.parquet: each is described, and together they tell the cells of a suite apart."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from dpgraph.config.record import CellRecord, Metric, SeedRecord
from dpgraph.reporting.aggregate import COLUMNS, STORED, blocks, rows_of, write_dictionary
from dpgraph.reporting.dictionary import calibrated, dictionary, mechanism_values, setting_values, settings
from dpgraph.reporting.records import ParsedRecord
from tests.contract.cells import CELLS
from tests.plans import plan_of
from tests.reporting.conftest import WORKFLOW


def test_every_column_is_described_once(tmp_path: Path) -> None:
    write_dictionary(tmp_path / "results.parquet")
    listed = pd.read_csv(tmp_path / "results.columns.csv", keep_default_na=False)
    assert set(listed["column"]) == set(STORED.empty_table().flatten().flatten().column_names)
    assert (listed["description"].str.len() > 3).all(), listed[listed["description"].str.len() <= 3]
    assert set(listed["type"]) == {"string", "int64", "float64", "bool"}


@pytest.mark.parametrize("suite", sorted(path.stem for path in (WORKFLOW / "suites").glob("*.yaml")))
def test_no_two_cells_of_a_suite_have_the_same_columns(suite: str) -> None:
    """Without the cell's name, which is a hash of them."""
    seen: dict[tuple, str] = {}
    for slug, cell in plan_of(suite).cells.items():
        values = tuple(str(value) for value in setting_values(cell).values())
        described = (cell.task.dataset, cell.task.setting, cell.task.split, cell.task.features, cell.method, *values)
        assert seen.setdefault(described, slug) == slug


def test_values_are_those_of_the_cell() -> None:
    cell = CELLS["dp-gnn-1-rigorous"]
    values = setting_values(cell)
    assert values["training.sampling_rate"] == 0.3
    assert values["privacy.variant"] == "rigorous"
    assert values["model.width"] == 8.0
    assert pd.isna(values["training.batch_size"])
    assert values["training.steps"] == str(cell.training.steps)
    assert pd.isna(values["pagerank.top_k"])
    assert list(values) == list(settings())
    assert len(dictionary()) == len(COLUMNS) + len(settings()) + len(calibrated())


def test_numbers_of_the_mechanism_that_ran() -> None:
    """What a target epsilon leaves open: noise, number of roots, rate."""
    recorded = {
        "kind": "poisson-trees",
        "steps": 100,
        "num_roots": 2160,
        "noise_multiplier": 7.316,
        "sampling_rate": 0.2,
    }
    values = mechanism_values(recorded | {"of_a_later_version": 1})
    assert list(values) == list(calibrated())
    assert (values["mechanism.num_roots"], values["mechanism.noise_multiplier"]) == (2160, 7.316)
    assert (values["mechanism.kind"], values["mechanism.sampling_rate"]) == ("poisson-trees", 0.2)
    assert pd.isna(values["mechanism.batch_size"])
    assert all(value == "" or pd.isna(value) for value in mechanism_values({}).values())


def test_a_mechanism_may_have_yes_and_no() -> None:
    """Of `CappedVotes`, whose records no aggregation read before."""
    assert mechanism_values({"by_schema": True})["mechanism.by_schema"] == "true"
    assert mechanism_values({"by_schema": False})["mechanism.by_schema"] == "false"
    with pytest.raises(ValueError, match=r"mechanism.by_schema=.*: expected a text"):
        mechanism_values({"by_schema": 1.0})


@pytest.mark.parametrize("value", ["many", True, [1], math.inf, {}])
def test_what_a_column_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"mechanism.num_roots=.*: expected a number"):
        mechanism_values({"num_roots": value})


def test_a_record_gives_its_mechanism_to_every_row() -> None:
    cell = CELLS["dp-gnn-1-rigorous"]
    metrics = tuple(Metric(step=1, final=True, metric=name, value=0.5) for name in ("accuracy/test", "accuracy/val"))
    seed = SeedRecord(seed=0, status="ok", seconds=1.0, metrics=metrics)
    statement = {"mechanism": {"kind": "poisson-trees", "num_roots": 77, "noise_multiplier": 2.5}, "steps": 1}
    record = CellRecord(cell=cell, status="ok", statement=statement, seeds=(seed,))
    read = ParsedRecord(record, cell)
    frame = rows_of(("p", block) for block in blocks(read)).to_pandas()
    assert frame["mechanism.num_roots"].tolist() == [77, 77]
    assert frame["mechanism.kind"].tolist() == ["poisson-trees"] * 2
    assert frame["model.width"].tolist() == [8, 8]
