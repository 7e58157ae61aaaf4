"""Every table, figure and claim of the papers is shown by suite paper, or has a reason."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.config.config import parse
from dpgraph.config.documents import read_yaml
from dpgraph.config.inventory import Inventory
from dpgraph.planning.inventory import read_inventory
from tests.plans import load_once, plan_of

WORKFLOW = Path(__file__).parents[2] / "workflow"


@pytest.fixture(autouse=True)
def planned_once(monkeypatch):
    monkeypatch.setattr("dpgraph.planning.inventory.load_plan", load_once)


def numbered(prefix, first, last):
    return {f"{prefix}{number}" for number in range(first, last + 1)}


# counted in the papers: Daigavane et al. have no Table 8
PAPERS = {
    "igamberdiev": (numbered("table", 1, 5), numbered("fig", 1, 6), numbered("I", 1, 20)),
    "igamberdiev-v1": (numbered("table", 1, 4), numbered("fig", 1, 4), numbered("V", 1, 8)),
    "daigavane": (numbered("table", 1, 12) - {"table8"}, numbered("fig", 1, 4), numbered("D", 1, 14)),
    "huang": (numbered("table", 1, 3), numbered("fig", 1, 5), numbered("H", 1, 11)),
    "zhang-ch3": (numbered("table3.", 1, 4), numbered("fig3.", 1, 4), numbered("Z", 1, 6)),
    "zhang-ch4": (numbered("table4.", 1, 2), numbered("fig4.", 1, 13), numbered("Z", 7, 12)),
    "zhang": ({"table5.1"}, numbered("fig5.", 1, 13), numbered("Z", 13, 21)),
}


def test_the_suite_shows_all_that_the_papers_have():
    items: dict[str, list[str]] = {paper: [] for paper in PAPERS}
    for row in read_inventory(WORKFLOW)[1]:
        if row["paper"] in items:
            items[row["paper"]].append(row["item"])
    assert {paper: set(found) for paper, found in items.items()} == {
        paper: set.union(*of) for paper, of in PAPERS.items()
    }
    assert all(len(found) == len(set(found)) for found in items.values())  # no reason for what is shown


def test_what_is_ours_is_there():
    known = parse(Inventory, read_yaml(WORKFLOW / "inventory.yaml"), "inventory.yaml")
    plan = plan_of(known.suite)
    names = [*plan.artefacts, *(f"{paper}/{claim}" for claim, (paper, _) in plan.claims().items())]
    for paper, one in known.papers.items():
        for pattern in one.ours:
            assert any(fnmatchcase(name, f"{paper}/{pattern}") for name in names), (paper, pattern)


def test_listing(capsys, monkeypatch):
    monkeypatch.chdir(WORKFLOW.parent)
    assert main(["list", "inventory", "--paper", "huang"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 3 + 5 + 11
    assert main(["list", "inventory", "--paper", "nobody"]) == 2
    assert "--paper=nobody: expected one of daigavane" in capsys.readouterr().err
