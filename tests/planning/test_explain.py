"""Every value of a cell with the place that it comes from."""

import pytest

from dpgraph.cli import main
from dpgraph.config.config import Config
from dpgraph.core.errors import UserError
from dpgraph.planning.explain import explain
from dpgraph.planning.plan import load_plan
from tests.plans import plan_of


@pytest.fixture(scope="module")
def plan():
    return plan_of("demo")


def rows_of(plan, name):
    (rows,) = explain(plan, name).values()
    return {row["setting"]: (row["value"], row["from"]) for row in rows}


def test_every_place_of_a_setting_is_named(plan):
    entry = next(
        entry for entry in plan.entries_of("daigavane/table6") if entry.method_id == "dp-gcn-1" and entry.value == "2"
    )
    found = rows_of(plan, entry.cell.slug)
    row = "experiments/daigavane.yaml: methods.dp-gcn-1, matrix of ${by.dp}gcn-1${by.end}"
    assert found["method"] == ("dp-gnn", row)
    assert found["model.hops"] == (1, row)
    assert found["model.width"] == (64, "suites/demo.yaml: papers.daigavane.rules[0] (methods *)")
    assert found["privacy.max_degree"][1] == "suites/demo.yaml: papers.daigavane.artefacts.table6, matrix of $K, 2"
    assert found["privacy.epsilon"] == (12.0, "suites/demo.yaml: papers.daigavane.artefacts.table6.epsilons")
    assert found["privacy.clip_norm"][1] == "suites/demo.yaml: papers.daigavane.rules[3] (methods dp-*)"
    assert found["privacy.delta"] == (None, "default of dp-gnn")
    assert found["task.dataset"] == ("demo-sbm", "suites/demo.yaml: tasks.sbm")
    assert found["seeds"] == ([0, 1], "suites/demo.yaml: seeds")


def test_what_stands_behind_a_matrix_is_named_as_in_the_file():
    """Rules keep the index that they have in the file, however many a matrix or a name before them makes."""
    plan = load_plan(Config(suite="cpu", artefacts=("zhang/fig5.9-after-q", "igamberdiev/table2")))
    entries = plan.entries_of("zhang/fig5.9-after-q")
    entry = next(
        one for one in entries if (one.method_id, one.task_id, one.value) == ("gm-published", "pubmed-80", "20")
    )
    found = rows_of(plan, entry.cell.slug)
    assert found["pagerank.num_rows"] == (
        60,
        "suites/cpu.yaml: papers.zhang.rules[0], matrix (methods vanilla, *-published)",
    )
    assert found["training.steps"][1] == ("suites/cpu.yaml: papers.zhang.artefacts.fig5.9-after-q, matrix of $B, 20")
    assert found["pagerank.clip"][1].startswith("suites/cpu.yaml: papers.zhang.rules[5] (methods gm, ")
    assert found["task.dataset"] == ("pubmed", "suites/cpu.yaml: tasks.pubmed-80, matrix of $id-80")
    entry = next(one for one in plan.entries_of("igamberdiev/table2") if one.method_id == "gcn-sgd")
    found = rows_of(plan, entry.cell.slug)
    assert found["training.patience"] == (
        20, "suites/cpu.yaml: papers.igamberdiev.rules[0], $kipf[2] (methods gcn-sgd, gcn-adam)",
    )  # fmt: skip


@pytest.mark.parametrize("suite", ["demo", "cpu", "ablations", "paper"])
def test_all_cells_can_be_explained(suite):
    """Every setting is there once, with the cell's value; what no layer gives is the default."""
    plan = load_plan(Config(suite=suite, seeds=2))
    for artefact in plan.artefacts:
        cells = {entry.cell.slug: entry.cell for entry in plan.entries_of(artefact)}
        if not cells:  # of data sets alone
            continue
        found = explain(plan, artefact)
        assert found.keys() == cells.keys()
        for slug, rows in found.items():
            names = [row["setting"] for row in rows]
            assert len(set(names)) == len(names)
            for row in rows:
                value = cells[slug]
                for part in row["setting"].split("."):
                    owner, value = value, getattr(value, part)
                assert row["value"] == (list(value) if isinstance(value, tuple) else value)
                if row["from"].startswith("default of"):
                    field = type(owner).model_fields[part]
                    assert not field.is_required()
                    assert value == field.default


def test_the_command_line(capsys):
    assert main(["explain", "daigavane/table5", "--suite", "demo"]) == 0
    shown = capsys.readouterr().out
    assert "suites/demo.yaml: papers.daigavane.artefacts.table5, full" in shown
    assert main(["explain", "nope", "--suite", "demo"]) == 2
    assert "cell or artefact=nope: expected one of suite demo" in capsys.readouterr().err


def test_an_empty_name_is_no_cell(plan):
    with pytest.raises(UserError, match="expected one of suite demo"):
        explain(plan, "")
