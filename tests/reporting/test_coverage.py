"""The page of the papers' tables and figures, from made-up rows of a kept suite."""

import fnmatch

import pandas as pd
import pytest

from dpgraph.planning.inventory import read_inventory
from dpgraph.reporting.coverage import coverage, state
from dpgraph.reporting.render import ROWS
from tests.plans import load_once, plan_of
from tests.reporting.conftest import WORKFLOW


@pytest.fixture(autouse=True)
def planned_once(monkeypatch):
    for module in ("planning.inventory", "reporting.coverage"):
        monkeypatch.setattr(f"dpgraph.{module}.load_plan", load_once)


@pytest.fixture
def covered(tmp_path):
    """Return the table of items, given the (cell, data set, seeds) that suite demo keeps."""

    def found(*kept):
        (tmp_path / "demo").mkdir(exist_ok=True)
        rows = [
            {"cell": cell, "dataset": data, "seed": seed, "final": final, "status": status}
            for cell, data, seeds in kept
            for seed in range(seeds)
            for final, status in ((True, "ok"), (False, "ok"), (True, "failed"))
        ]
        columns = ["cell", "dataset", "seed", "final", "status"]
        pd.DataFrame(rows, columns=columns).to_parquet(tmp_path / "demo" / ROWS)
        table, text = coverage(tmp_path, WORKFLOW)
        return table.set_index(["paper", "item"]), text

    return found


def cells_of(suite, name):
    entries = plan_of(suite).entries_of(name)
    return {entry.cell.slug: entry.cell.task.dataset for entry in entries}


def test_an_item_is_complete_with_rows_of_every_cell(covered):
    cells = cells_of("paper", "igamberdiev/table5")
    some = [(slug, data, 5 + place % 2) for place, (slug, data) in enumerate(cells.items())]
    table, text = covered(*some)
    row = table.loc["igamberdiev", "table5"]
    assert (row["cells"], row["with_rows"], row["seeds"], row["complete"], row["run"]) == (15, 15, 5, 1, "")
    assert state(row) == state(table.loc["igamberdiev-v1", "table4"]) == "complete"  # the same cells
    assert "19 tables: 2 complete, 0 in part, " in text
    table, text = covered(*some[1:])
    row = table.loc["igamberdiev", "table5"]
    assert (state(row), row["with_rows"], row["complete"], row["no_data"]) == ("in part", 14, 0, 0)
    assert row["missing"].startswith("1 cell, estimated: ")
    assert row["run"] == "dpgraph run igamberdiev/table5 --suite paper"


def test_a_failed_run_and_a_step_before_the_last_are_no_rows(covered):
    slug, data = next(iter(cells_of("paper", "igamberdiev/table5").items()))
    table, _ = covered((slug, data, 0))
    assert state(table.loc["igamberdiev", "table5"]) == "not run"


def test_other_cells_that_show_an_item_are_named(covered):
    slug, data = next(iter(cells_of("demo", "daigavane/table1").items()))
    assert slug not in cells_of("paper", "daigavane/table1")
    table, text = covered((slug, data, 5))
    row = table.loc["daigavane", "table1"]
    assert (state(row), row["also"], row["suites"], row["with_rows"]) == ("other cells", "demo", "", 0)
    assert row["no_data"] == row["cells"] == 44
    assert "| other cells | 0 / 44 | – | 0 / 1 | 44 | – | demo | 44 cells, estimated: " in text


def test_what_needs_no_training_and_what_is_not_shown_have_no_cells(covered):
    table, _ = covered()
    assert state(table.loc["daigavane", "table7"]) == state(table.loc["igamberdiev", "table3"]) == "no training"
    diagram = table.loc["zhang-ch3", "fig3.1"]
    assert (state(diagram), diagram["title"]) == ("–", "a diagram of the method, without numbers")


def test_a_command_runs_the_panels_of_its_item_alone(covered):
    table, _ = covered()
    shown = {(row["paper"], row["item"]): row["shown_by"].split(", ") for row in read_inventory(WORKFLOW)[1]}
    for (paper, item), row in table[table["cells"] > 0].iterrows():
        words = row["run"].removeprefix("dpgraph run ").removesuffix(" --suite paper").replace("'", "").split()
        runs = [name for word in words for name in fnmatch.filter(plan_of("paper").artefacts, word)]
        assert runs == [f"{paper}/{name}" for name in shown[paper, item]]
