"""Every table, figure and claim of the papers is shown by suite paper, or has a reason."""

from collections import defaultdict
from pathlib import Path

import pytest
from pydantic import ValidationError

from dpgraph.cli import main
from dpgraph.experiments.config import Config, parse
from dpgraph.experiments.documents import read_yaml
from dpgraph.experiments.inventory import Inventory
from dpgraph.planning.plan import load_plan

WORKFLOW = Path(__file__).parents[2] / "workflow"


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


@pytest.fixture(scope="module")
def inventory():
    return parse(Inventory, read_yaml(WORKFLOW / "inventory.yaml"), "inventory.yaml")


@pytest.fixture(scope="module")
def there(inventory):
    plan = load_plan(Config(suite=inventory.suite), WORKFLOW)
    artefacts = defaultdict(set)
    for paper, name in (artefact.split("/") for artefact in plan.artefacts):
        artefacts[paper].add(name)
    return dict(artefacts), {paper: set(experiment.claims) for paper, experiment in plan.experiments.items()}


def test_all_that_the_papers_have_is_listed(inventory):
    listed = {name: (set(part.tables), set(part.figures), set(part.claims)) for name, part in inventory.papers.items()}
    assert listed == PAPERS


def test_the_suite_has_what_is_listed_and_no_more(inventory, there):
    assert inventory.mistakes(*there) == []


def test_what_disagrees_is_named(inventory, there):
    artefacts, claims = there
    fewer = {**artefacts, "daigavane": (artefacts["daigavane"] - {"table9"}) | {"table99"}}
    assert inventory.mistakes(fewer, claims) == [
        "daigavane: table table9: table9: not in suite paper",
        "daigavane/table99: no item of the inventory names it, and it is not among ours",
    ]
    without = {**claims, "igamberdiev": {name for name in claims["igamberdiev"] if not name.startswith("O")}}
    assert inventory.mistakes(artefacts, without) == ["igamberdiev: ours O*: matches nothing of suite paper"]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"experiment": "p", "tables": {"t": {}}}, "expected exactly one of them"),
        ({"experiment": "p", "tables": {"t": {"shown_by": ["t"], "reason": "not needed"}}}, "exactly one of them"),
        ({"tables": {"t": {"shown_by": ["t"]}}}, "expected one, which shows t"),
    ],
)
def test_an_item_is_shown_or_has_a_reason(part, message):
    with pytest.raises(ValidationError, match=message):
        Inventory.model_validate({"suite": "s", "papers": {"p": {"title": "t", **part}}})


def test_listing(capsys, monkeypatch):
    monkeypatch.chdir(WORKFLOW.parent)
    assert main(["inventory", "--paper", "huang"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 1 + 3 + 5 + 11
    assert main(["inventory", "--paper", "nobody"]) == 2
    assert "--paper=nobody: expected one of igamberdiev" in capsys.readouterr().err
