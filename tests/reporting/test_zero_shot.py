"""The floor of relations: what is trained without privacy beside the untrained vectors, and why it may be below."""

from pathlib import Path

import numpy as np
import pytest

from dpgraph.config.literature import Baselines
from dpgraph.reporting.baselines import baselines, complaints
from dpgraph.reporting.inputs import compared, splits_by_task
from tests.plans import plan_of

WORKFLOW = Path(__file__).parents[2] / "workflow"


@pytest.fixture(scope="module")
def plan():
    return plan_of("text-cpu")


def rows(plan, as_frame, rows_of, scores):
    """`scores`: by method, differences to 0.5 of each seed on test and on training tuples."""
    found = []
    for entry in {entry.cell.slug: entry for entry in plan.entries if entry.task_id == "m10-cora"}.values():
        if entry.method_id not in scores:
            continue
        for metric, values in zip(("mrr/test", "mrr/train"), scores[entry.method_id]):
            for row in rows_of(entry, mean=0.5, std=0.0):
                if row["final"] and row["metric"] == "accuracy/test":
                    found.append(row | {"metric": metric, "value": 0.5 + values[row["seed"] % len(values)]})
    return as_frame(found)


def test_every_result_without_privacy_has_the_cosine_beside_it(plan):
    assert {entry.method_id for entry in compared(plan)} == {"head", "head-capped", "encoder", "encoder-capped"}
    assert splits_by_task(plan) == {}  # nothing that scikit-learn computes


@pytest.mark.parametrize(
    ("test", "train", "below", "reason"),
    [
        ((0.02, 0.03, 0.01), (0.0,), False, ""),
        ((-0.01, 0.005, 0.0), (0.1,), True, "no difference shown: "),
        ((-0.03, -0.02, -0.025), (0.1, 0.11, 0.1), True, "learnt, but not transferred: "),
        ((-0.03, -0.02, -0.025), (-0.1, -0.11, -0.1), True, ""),
    ],
)
def test_why_a_result_is_below_comes_from_the_results(plan, as_frame, rows_of, test, train, below, reason):
    table = baselines(plan, Baselines(), rows(plan, as_frame, rows_of, {"cosine": ((0,), (0,)), "head": (test, train)}))
    row = table[(table["method"] == "head") & (table["task"] == "m10-cora")].iloc[0]
    assert (row["reference"], row["kind"], row["below"]) == ("cosine", "zero-shot", below)
    assert row["reason"].startswith(reason)
    assert bool(row["reason"]) == bool(reason)
    seeds = [test[seed % len(test)] for seed in range(5)]
    assert row["difference"] == pytest.approx(100 * np.mean(seeds))
    assert row["reference_accuracy"] == pytest.approx(50)
    assert row["mean"] == pytest.approx(50 + 100 * np.mean(seeds))
    wrong = complaints(table)
    assert len(wrong) == (below and not reason)
    other = table[(table["method"] == "encoder") & (table["task"] == "m10-cora")].iloc[0]
    assert other["reason"].startswith("no results of cosine")
