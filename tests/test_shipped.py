"""docs/results as it stands in the repository: verdicts keep to their power, baselines to their tolerance."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpgraph.experiments.literature import read_baselines
from dpgraph.reporting.baselines.table import TOLERANCE
from dpgraph.reporting.claims.parts import ENOUGH, NOT_RUN, UNDERPOWERED, VERDICTS
from dpgraph.reporting.claims.verdicts import LEVEL
from dpgraph.reporting.leaderboard.guide import VALUES
from dpgraph.reporting.shipping import FOLDER

SHIPPED = Path(__file__).parents[1] / FOLDER
SUITES = sorted(path.parent.name for path in SHIPPED.glob(f"*/{VALUES}"))
SIMULATED = 0.01  # error of a size from 4,000 draws, of a rank test


def shipped(suite: str, name: str) -> pd.DataFrame:
    path = SHIPPED / suite / name
    if not path.is_file():
        pytest.skip(f"suite {suite} has no {name}")
    return pd.read_csv(path)


def test_there_are_suites() -> None:
    assert "baselines" in SUITES


@pytest.mark.parametrize("suite", SUITES)
def test_a_weak_test_decides_nothing(suite: str) -> None:
    claims = shipped(suite, "claims.csv")
    assert set(claims["verdict"]) <= set(VERDICTS)
    weak = claims[claims["power"] < ENOUGH]
    assert weak.loc[~weak["verdict"].isin([UNDERPOWERED, NOT_RUN]), ["claim", "verdict", "power"]].values.tolist() == []
    large = claims[claims["size"] > LEVEL + SIMULATED]
    assert large[["claim", "size"]].values.tolist() == []


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_below_its_reference_says_why(suite: str) -> None:
    table = shipped(suite, "baselines.csv")
    table = table[table["kind"].isin(["literature", "computed"])]
    below = table[table["mean"] < table["reference_accuracy"] - TOLERANCE]
    assert below.loc[below["reason"].isna(), ["method", "task", "mean", "reference_accuracy"]].values.tolist() == []


def test_no_reason_is_a_blank_cheque() -> None:
    """Each reason of workflow/baselines.yaml is of a row that is below its reference in a kept suite."""
    tables = [pd.read_csv(SHIPPED / suite / "baselines.csv") for suite in SUITES
              if (SHIPPED / suite / "baselines.csv").is_file()]  # fmt: skip
    rows = pd.concat(tables)
    below = [(row.paper, row.method, row.task, row.kind) for row in rows[rows["below"]].itertuples()]
    reasons = read_baselines(Path(__file__).parents[1] / "workflow").reasons
    assert [one.reason for one in reasons if not any(one.holds(*row) for row in below)] == []
