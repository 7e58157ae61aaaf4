"""Speeds of encoders, and what a suite says of what it leaves out; by the perceptron, which needs no weights."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpgraph.benchmarks.encoders import AUTOGRAD, COLUMNS, PLAIN, PRIVATE, bench
from dpgraph.data.fetch import fetch
from dpgraph.errors import UserError
from dpgraph.experiments.config import Config
from dpgraph.experiments.paths import Paths
from dpgraph.planning.left_out import cells_to_time, needs_speeds
from dpgraph.planning.plan import load_plan
from dpgraph.problems.preprocess import preprocess
from dpgraph.reporting import left_out
from dpgraph.reporting.aggregate import aggregate
from dpgraph.reporting.inputs import aggregate_inputs
from dpgraph.reporting.results import Results, read_results

WORKFLOW = Path(__file__).resolve().parents[2] / "workflow"


@pytest.fixture(scope="module")
def relations_plan(tmp_path_factory):
    """Suite demo's relations, with their data; encoders are left out for want of compute."""
    folder = tmp_path_factory.mktemp("encoders")
    config = Config(
        suite="demo",
        papers=("huang",),
        artefacts=("huang/relations",),
        data=str(folder / "data"),
        results=str(folder / "results"),
    )
    plan = load_plan(config, WORKFLOW)
    task = plan.task("relations")
    fetch(task.dataset, folder / "raw")
    preprocess(task, folder / "raw", Paths(config).graph(task))
    entries = [
        replace(entry, not_run="compute" if "encoder" in entry.method_id else "too warm") for entry in plan.entries
    ]
    return replace(plan, entries=tuple(entries))


@pytest.fixture(scope="module")
def speeds(relations_plan):
    return bench(relations_plan, Paths(relations_plan.config).encoder_costs, repeats=1, tokens=640)


def test_one_row_for_each_step_of_one_batch(relations_plan, speeds):
    assert [row["step"] for row in speeds.to_dict("records")] == [PLAIN, AUTOGRAD, PRIVATE]
    assert list(pd.read_csv(Paths(relations_plan.config).encoder_costs).columns) == list(COLUMNS)
    assert speeds["ratio"][0] == speeds["of_autograd"][1] == 1
    for name in ("tuples", "texts", "inputs", "texts_encoded_per_second"):
        assert speeds[name].nunique() == 1
        assert speeds[name][0] > 0
    assert (speeds["texts"] == (2 + speeds["negatives"]) * speeds["tuples"]).all()
    milliseconds = 1e3 * speeds["tuples"] / speeds["tuples_per_second"]
    assert speeds["cpu_ms"].to_numpy() == pytest.approx(milliseconds.to_numpy(), abs=0.06)  # of a step, rounded to 0.1
    assert (speeds["peak_mib"] > 0).all()


def test_only_what_is_run_or_wants_compute_is_timed(relations_plan):
    assert [cell.method for cell in cells_to_time(relations_plan).values()] == ["relation-encoder"]
    others = [replace(entry, not_run="too warm") for entry in relations_plan.entries]
    assert not cells_to_time(replace(relations_plan, entries=tuple(others)))
    assert not needs_speeds(replace(relations_plan, entries=tuple(others)))


def test_what_is_left_out_is_no_job_and_has_a_row_with_its_reason(relations_plan, speeds):
    plan = relations_plan
    assert not plan.cells
    assert not plan.calibrations
    assert Paths(plan.config).encoder_costs in aggregate_inputs(plan, {}, plan.calibrations)
    path = Paths(plan.config).results
    assert aggregate(plan, path) == len(plan.entries)
    results = Results.of(read_results(path))
    for entry in plan.entries:
        outcome = results.outcome(entry, "mrr/test")
        assert outcome.status == "not run"
        assert math.isnan(outcome.eps_rigorous)
        if "encoder" in entry.method_id:
            assert outcome.reason.startswith("compute: ")
            assert "hours of one core for 2 seeds of 60 steps" in outcome.reason
        else:
            assert outcome.reason == "too warm"


def test_hours_by_hand(relations_plan):
    (entry,) = [one for one in relations_plan.entries if one.method_id == "dp-encoder"]
    row = {"dataset": "demo-relations", "encoder": "mlp", "max_tokens": 32, "negatives": 2, "train_tuples": 1000,
           "entities": 7200, "tuples_per_second": 3.0, "texts_encoded_per_second": 4.0, "reason": ""}  # fmt: skip
    table = pd.DataFrame([row | {"step": PLAIN, "tuples_per_second": 9.0}, row | {"step": PRIVATE}])
    # 3 tuples of 4 texts a second are 2 of 6; 60 steps of 30 tuples, and 7200 texts once: 900 and 1800 s a seed
    assert left_out.reason(entry, table).startswith("compute: 1.5 hours of one core for 2 seeds of 60 steps with 30")
    assert "measured 2 tuples a second" in left_out.reason(entry, table)
    none = pd.DataFrame([row | {"reason": "no encoder", "step": np.nan}])
    assert left_out.reason(entry, none) == "compute: hours not measured (no encoder)"
    assert left_out.reason(replace(entry, not_run="other"), table) == "other"


def test_speeds_that_are_not_there_are_an_error_in_one_line(tmp_path):
    with pytest.raises(UserError, match="no table of measured speeds"):
        left_out.read_speeds(tmp_path / "encoders.csv")
