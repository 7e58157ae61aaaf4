"""Shares of a budget, of the plan alone."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpgraph.reporting.display import MadeTable
from dpgraph.reporting.views.shares import make
from tests.plans import plan_of


@pytest.fixture(scope="module")
def made() -> MadeTable:
    return make(plan_of("votes"), "votes/shares", None)


def of(frame: pd.DataFrame, method: str, task: str, epsilon: float) -> dict:
    (row,) = frame[(frame.method == method) & (frame.task == task) & (frame.epsilon_target == epsilon)].to_dict(
        "records"
    )
    return row


def test_shares_are_those_of_the_settings_and_sum_to_all(made: MadeTable) -> None:
    votes, own = (of(made.frame, method, "cornell5", 1) for method in ("votes", "own"))
    assert votes["Votes"] == pytest.approx(70)
    chosen = of(made.frame, "votes", "cora-ml", 1)
    assert chosen["Choice, of ε"] == pytest.approx(5)  # of epsilon, no part of the sum
    assert sum(votes[name] for name in ("Training", "Votes", "Mean of rows", "Reader")) == pytest.approx(100)
    assert math.isnan(own["Votes"])
    assert own["Training"] + own["Mean of rows"] == pytest.approx(100)
    schema = of(made.frame, "votes-schema", "cornell5", 8)
    paid = [schema[name] for name in ("Training", "Votes", "Mean of rows", "Hubs")]
    assert sum(one for one in paid if not math.isnan(one)) == pytest.approx(100)
    assert schema["Degrees, by receivers"] > 0
    assert of(made.frame, "progap", "pubmed", 8)["Sums"] == pytest.approx(65)  # as searched


def test_the_table_has_a_row_for_each(made: MadeTable) -> None:
    assert sum(len(block.rows) for block in made.table.blocks) == len(made.frame)
    assert all(len(row) == len(made.table.columns) for block in made.table.blocks for row in block.rows)
