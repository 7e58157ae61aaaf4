"""Where a public rule lets nobody vote, tables and the first page say so: by what a result records of its mechanism."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dpgraph.config.record import CellRecord, Metric, SeedRecord
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.aggregate import blocks, rows_of
from dpgraph.reporting.leaderboard.page import FALLS_BACK, Links, page
from dpgraph.reporting.leaderboard.standings import standings
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.records import ParsedRecord
from dpgraph.reporting.views.accuracy.table import accuracy_display, accuracy_table
from dpgraph.reporting.views.accuracy.wide import make
from tests.contract.cells import CELLS
from tests.plans import plan_of
from tests.reporting.conftest import frame_of, result_rows

TEXT = "falls back to own records here: nobody votes"
ACCURACY = "votes/accuracy"


def recorded(name: str, mechanism: dict[str, Any]) -> pd.DataFrame:
    statement = {"mechanism": mechanism, "steps": 1}
    metric = Metric(step=1, final=True, metric="accuracy/test", value=0.5)
    seed = SeedRecord(seed=0, status="ok", seconds=1.0, metrics=(metric,))
    record = CellRecord(cell=CELLS[name], status="ok", statement=statement, seeds=(seed,))
    return rows_of(("p", block) for block in blocks(ParsedRecord(record, CELLS[name]))).to_pandas()


@pytest.mark.parametrize(
    ("name", "kind", "ratio", "text"),
    [
        ("dp-votes-node-remove-capped", "capped-votes", None, TEXT),
        ("dp-votes-node-remove-capped", "capped-votes", 1.5, ""),
        ("dp-votes-node-remove-strangers", "bounded-stranger-votes", None, TEXT),
        ("dp-votes-own", "poisson-votes", None, ""),  # own records are what this row is
        ("dp-gnn-1-rigorous", "poisson-trees", None, ""),
    ],
)
def test_the_fact_is_in_the_record(name: str, kind: str, ratio: float | None, text: str) -> None:
    assert recorded(name, {"kind": kind, "votes_ratio": ratio})["fallback"].tolist() == [text]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("votes", artefacts=(ACCURACY,), seeds=2)


@pytest.fixture(scope="module")
def shown(plan: Plan) -> list[Entry]:
    return [one for one in plan.entries if one.task_id == "cora-ml" and one.method_id in ("own", "votes-remove")]


@pytest.fixture(scope="module")
def results(shown: list[Entry]) -> pd.DataFrame:
    """Votes under node-remove at epsilon 1 have no votes."""
    rows = []
    for entry in shown:
        nobody = entry.method_id == "votes-remove" and entry.target_epsilon == 1
        rows += result_rows(entry, fallback=TEXT if nobody else "")
    return frame_of(rows)


def test_tables_number_it_as_a_note(plan: Plan, results: pd.DataFrame, shown: list[Entry]) -> None:
    """Of the label in the long form, of the value in the wide one, whose lines have several data sets."""
    long = accuracy_table(plan, ACCURACY, results)
    assert long[long["fallback"] == TEXT][["label", "epsilon_target"]].values.tolist() == [["Votes (node-remove)", 1.0]]
    table = accuracy_display("title", long, quantity("accuracy/test"))
    marked = [row for block in table.blocks for row in block.rows if row[0].notes]
    assert [[row[0].value, row[1].value] for row in marked] == [["Votes (node-remove)", "1"]]
    assert table.footnotes[marked[0][0].notes[0] - 1] == TEXT
    wide = make(plan, ACCURACY, long)
    values = [cell for block in wide.blocks for row in block.rows for cell in row[3:] if cell.value[:1].isdigit()]
    noted = [cell for cell in values if any(wide.footnotes[number - 1] == TEXT for number in cell.notes)]
    assert len(values) == len(shown)
    assert len(noted) == 1


def test_the_first_page_marks_the_value_and_explains_the_mark(plan: Plan, results: pd.DataFrame) -> None:
    claims = pd.DataFrame(columns=["paper", "claim", "verdict", "statement", "reason", "evidence", "source"])
    text = page(plan, standings(plan, results), claims, Links())
    assert text.count(f' {FALLS_BACK}"') == 1
    assert f"<dt>{FALLS_BACK}</dt><dd>{TEXT} (Votes (node-remove))</dd>" in text
    plain = page(plan, standings(plan, results.assign(fallback="")), claims, Links())
    assert FALLS_BACK not in plain
