"""docs/results as it stands in the repository: verdicts keep to their power, baselines to their tolerance."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpgraph.config.experiment import ACCURACY
from dpgraph.config.literature import read_baselines
from dpgraph.reporting.baselines import RANKS, TOLERANCE
from dpgraph.reporting.claims.contrasts import LEVEL
from dpgraph.reporting.claims.parts import CONTRADICTED, ENOUGH, FEWEST, REPRODUCED, VERDICTS, read_parts
from dpgraph.reporting.leaderboard.guide import VALUES
from dpgraph.reporting.render import ROWS, read_rows
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
def test_a_weak_test_reproduces_nothing_and_four_seeds_decide_nothing(suite: str) -> None:
    claims = shipped(suite, "claims.csv")
    assert set(claims["verdict"]) <= set(VERDICTS)
    for row in claims.to_dict("records"):
        for one in read_parts(row["parts"]):
            if one.verdict == REPRODUCED and one.tested and not one.premise:
                assert one.power >= ENOUGH or one.larger, (row["claim"], one)
            if one.verdict in (REPRODUCED, CONTRADICTED) and one.tested and not one.premise:
                assert one.n >= FEWEST, (row["claim"], one)
    large = claims[claims["size"] > LEVEL + SIMULATED]
    assert large[["claim", "size"]].values.tolist() == []


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_below_its_reference_says_why(suite: str) -> None:
    table = shipped(suite, "baselines.csv")
    table = table[table["kind"].isin(["literature", "computed"])]
    below = table[table["mean"] < table["reference_accuracy"] - TOLERANCE]
    assert below.loc[below["reason"].isna(), ["method", "task", "mean", "reference_accuracy"]].values.tolist() == []


@pytest.mark.parametrize("suite", SUITES)
def test_baselines_are_of_the_rows_beside_them(suite: str) -> None:
    """A row is over the first `n` seeds: where a sweep has the same cell, it may have more."""
    table = shipped(suite, "baselines.csv")
    rows = read_rows(SHIPPED / suite / ROWS, suite)
    final = rows[rows["final"].astype(bool) & (rows["status"] == "ok")]
    values = final.set_index(["paper", "cell", "metric"])[["seed", "value"]].sort_index()
    unlike = []
    for row in table[table["n"] > 0].to_dict("records"):
        every = values.loc[[(row["paper"], row["cell"], RANKS if row["kind"] == "zero-shot" else ACCURACY)]]
        own = every.sort_values("seed")["value"][: row["n"]]
        if row["n"] != len(own) or row["mean"] != pytest.approx(100 * own.mean(), rel=1e-6):
            unlike.append((row["paper"], row["method"], row["task"], row["n"], row["mean"], len(own), own.mean()))
    assert unlike == []


def test_no_reason_is_a_blank_cheque() -> None:
    """Each reason of workflow/baselines.yaml is of a row that is below its reference in a kept suite."""
    tables = [pd.read_csv(SHIPPED / suite / "baselines.csv") for suite in SUITES
              if (SHIPPED / suite / "baselines.csv").is_file()]  # fmt: skip
    rows = pd.concat(tables)
    below = [(row.paper, row.method, row.task, row.kind) for row in rows[rows["below"]].itertuples()]
    reasons = read_baselines(Path(__file__).parents[1] / "workflow").reasons
    assert [one.reason for one in reasons if not any(one.holds(*row) for row in below)] == []


@pytest.mark.parametrize("suite", SUITES)
def test_no_verdict_passes_over_a_premise(suite: str) -> None:
    for row in shipped(suite, "claims.csv").to_dict("records"):
        if row["verdict"] in (REPRODUCED, CONTRADICTED):
            assert all(one.verdict == REPRODUCED for one in read_parts(row["parts"]) if one.premise), row["claim"]


def test_no_claim_reads_as_more_than_its_parts_show() -> None:
    table = pd.read_csv(SHIPPED / "claims.csv").set_index("claim")
    assert len(table) == 74
    whole = table[table["verdict"] == REPRODUCED]
    for name, told in whole["parts"].items():
        assert not any(f": {word}" in told for word in VERDICTS if word != REPRODUCED), name
    # nothing but a paper's own mechanism and data decides: GCN and MLP on arxiv-text stand beside D1
    assert table.loc["D1", "substitutes"].startswith("arxiv-text: ")
    assert ": premise fails on arxiv-text" in table.loc["D1", "substitutes"]
    assert table.loc["D1", "verdict"] not in (REPRODUCED, CONTRADICTED) or isinstance(table.loc["D1", "data"], str)


def test_nothing_unfinished_is_kept():
    """A ship that is killed leaves its working folder, which belongs in no commit."""
    assert [path.name for path in SHIPPED.iterdir() if path.name.startswith(".")] == []
