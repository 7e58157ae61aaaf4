"""The page of the papers' tables and figures, from made-up rows of a kept suite."""

import fnmatch

import pandas as pd
import pytest

from dpgraph.planning.inventory import read_inventory
from dpgraph.reporting.coverage import coverage, state
from dpgraph.reporting.render import ROWS
from dpgraph.reporting.shipping import pages_of_all
from tests.plans import load_once, plan_of
from tests.reporting.conftest import WORKFLOW


@pytest.fixture(autouse=True)
def planned_once(monkeypatch):
    for module in ("planning.inventory", "reporting.coverage"):
        monkeypatch.setattr(f"dpgraph.{module}.load_plan", load_once)


@pytest.fixture
def covered(tmp_path):
    """Return the table of items, given for each kept suite (cell, data set, seeds, final, status)."""

    def found(metric="accuracy/test", **suites):
        for suite, kept in suites.items():
            (tmp_path / suite).mkdir(exist_ok=True)
            columns = ["cell", "dataset", "seed", "final", "status"]
            rows = [(*one[:2], seed, *(one[3:] or (True, "ok"))) for one in kept for seed in range(one[2])]
            made = pd.DataFrame(rows, columns=columns).assign(metric=metric, value=0.5)
            path = tmp_path / suite / ROWS
            pd.concat(
                [*([pd.read_parquet(path)] if path.is_file() and metric != "accuracy/test" else []), made]
            ).to_parquet(path)
        table, text = coverage(tmp_path, WORKFLOW)
        return table.set_index(["paper", "item"]), text

    return found


def cells_of(suite, name):
    entries = plan_of(suite).entries_of(name)
    return {entry.cell.slug: entry.cell.task.dataset for entry in entries}


def test_an_item_is_complete_with_results_of_every_cell(covered):
    cells = cells_of("paper", "igamberdiev/table5")
    some = [(slug, data, 5 + place % 2) for place, (slug, data) in enumerate(cells.items())]
    table, text = covered(demo=some)
    row = table.loc["igamberdiev", "table5"]
    assert (row["cells"], row["with_results"], row["seeds"], row["complete"], row["run"]) == (15, 15, 5, 1, "")
    assert state(row) == state(table.loc["igamberdiev-v1", "table4"]) == "complete"  # the same cells
    assert "19 tables: 2 complete, 0 in part, 0 other cells, 17 not run (11 more need none); 40 figures: " in text
    table, text = covered(demo=some[1:])
    row = table.loc["igamberdiev", "table5"]
    assert (state(row), row["with_results"], row["complete"], row["unused_data"]) == ("in part", 14, 0, 0)
    assert row["missing"].startswith("1 cell, estimated: ")
    assert row["run"] == "dpgraph run igamberdiev/table5 --suite paper"


def test_a_cell_counts_with_five_seeds_that_ended_well(covered):
    first, second, *others = cells_of("paper", "igamberdiev/table5").items()
    unfinished, failed = (*first, 5, False, "ok"), (*first, 5, True, "failed")
    table, _ = covered(demo=[unfinished, failed, (*second, 4)])
    assert state(table.loc["igamberdiev", "table5"]) == "not run"
    # of two suites the one with more seeds counts
    table, _ = covered(demo=[(*second, 7)], mnist=[(*second, 6), *((*one, 9) for one in others)], gone=[(*first, 5)])
    row = table.loc["igamberdiev", "table5"]
    assert (row["with_results"], row["seeds"], row["suites"]) == (14, 7, "demo, mnist")


def test_a_cell_counts_with_seeds_of_the_metric_that_is_shown(covered):
    """Of each panel's own: shares of hard cases need a second run, so that a cell may have accuracies alone."""
    cells = [(*one, 5) for one in cells_of("paper", "igamberdiev/fig5").items()]
    table, _ = covered(demo=cells)
    assert table.loc["igamberdiev", "fig1"]["with_results"] == len(cells) == 100
    assert table.loc["igamberdiev", "fig5"]["with_results"] == 0
    hard = [*cells[:7], (*cells[7][:2], 4)]
    table, _ = covered(metric="hard_cases/fig5", demo=hard)
    assert [table.loc["igamberdiev", name]["with_results"] for name in ("fig1", "fig5")] == [100, 7]


def test_other_cells_that_show_an_item_are_named(covered):
    slug, data = next(iter(cells_of("demo", "daigavane/table1").items()))
    assert slug not in cells_of("paper", "daigavane/table1")
    table, text = covered(demo=[(slug, data, 5)])
    row = table.loc["daigavane", "table1"]
    assert (state(row), row["also"], row["suites"], row["with_results"]) == ("other cells", "demo", "", 0)
    assert row["unused_data"] == row["cells"] == 44
    assert "| other cells | 0 / 44 | – | 0 / 1 | 44 | – | demo | 44 cells, estimated: " in text
    # also where the suite has cells of the paper's own grid
    own = next(iter(cells_of("paper", "daigavane/table1").items()))
    table, _ = covered(demo=[(slug, data, 5), (*own, 5)])
    row = table.loc["daigavane", "table1"]
    assert (state(row), row["also"], row["suites"], row["unused_data"]) == ("in part", "demo", "demo", 33)


def test_what_needs_no_training_and_what_is_not_shown_have_no_cells(covered):
    table, _ = covered()
    assert state(table.loc["daigavane", "table7"]) == state(table.loc["igamberdiev", "table3"]) == "needs no training"
    diagram = table.loc["zhang-ch3", "fig3.1"]
    assert (state(diagram), diagram["title"]) == ("–", "a diagram of the method, without numbers")


def test_panels_share_a_title_and_a_command_that_runs_them_alone(covered):
    table, _ = covered(demo=[(*one, 5) for one in cells_of("paper", "zhang/fig5.1-k4-sgd1-code").items()])
    row = table.loc["zhang", "fig5.1"]
    assert (row["title"], row["panels"], row["complete"]) == ("Cora-ML: test accuracy against epsilon", 12, 1)
    assert " / Cora-ML: test accuracy of the models of Figure 5.4" in table.loc["zhang", "fig5.4"]["title"]
    shown = {(row["paper"], row["item"]): row["shown_by"].split(", ") for row in read_inventory(WORKFLOW)[1]}
    for (paper, item), row in table[table["run"] != ""].iterrows():
        words = row["run"].removeprefix("dpgraph run ").removesuffix(" --suite paper").replace("'", "").split()
        runs = [name for word in words for name in fnmatch.filter(plan_of("paper").artefacts, word)]
        assert runs == [f"{paper}/{name}" for name in shown[paper, item]]


def test_a_workflow_that_lists_no_papers_has_no_such_page(tmp_path):
    (tmp_path / "experiments").mkdir()
    assert [path.name for path in pages_of_all(tmp_path / "out", tmp_path)] == ["claims.md"]
