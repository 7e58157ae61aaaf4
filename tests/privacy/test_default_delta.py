"""The delta of a run that asks for none is decided in one place, by whom its mechanism counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dpgraph
from dpgraph.families.registry import specs
from dpgraph.planning.resolve import mechanism_for
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.public_numbers import Counted
from tests.contract.cells import CELLS

ROOT = Path(dpgraph.__file__).resolve().parents[2]
PRIVATE = [name for name, cell in CELLS.items() if cell.privacy is not None and cell.privacy.delta is None]


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("protected", [None, 60, 5000])
def test_delta_is_a_tenth_of_one_over_those_whom_the_mechanism_counts(name: str, protected: int | None) -> None:
    mechanism = mechanism_for(CELLS[name], 40, protected)
    assert isinstance(mechanism, NoisySteps)
    people = mechanism.num_protected  # of classes: the images, however many nodes are named
    counted = {
        Counted.ROOTS: mechanism.num_roots,
        Counted.TRAINING: 40,
        Counted.EVERYBODY: people or 40,
    }[mechanism.counted]
    expected = 1 / (10 * counted)
    if people is not None and expected >= 1 / people:
        expected = 1 / (10 * people)
    assert mechanism.delta == expected


def test_each_rule_has_a_mechanism_that_it_matters_for() -> None:
    mechanisms = {one.mechanism for known in specs().values() if known.private for one in known.variants.values()}
    assert {one.counted for one in mechanisms} == set(Counted)
    found = {name: mechanism_for(CELLS[name], 40, 60) for name in PRIVATE}
    deltas = {one.counted: one.delta for one in found.values() if isinstance(one, NoisySteps)}
    assert deltas[Counted.EVERYBODY] == 1 / 600 < 1 / 400 == deltas[Counted.TRAINING]


def test_nothing_else_decides_a_delta() -> None:
    """A mechanism's builder takes it from its request; rules of settings and graphs of one's own name their N."""
    package = ROOT / "src/dpgraph"
    decides = re.compile(r"usual_delta\(|1 / \(10 \*|\"delta\"\] =")
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if decides.search(path.read_text())}
    assert found == {
        "privacy/public_numbers.py",  # the rule
        "cli/privacy.py", "own_graph/budget.py",  # N is asked for, or the nodes that are there
        "families/votes/rules.py", "families/votes/caps.py",  # public rules of settings
        "reporting/views/derived.py",  # an attack without privacy
    }  # fmt: skip


def test_the_docs_have_every_rule() -> None:
    text = (ROOT / "docs/privacy/index.md").read_text()
    for one in Counted:
        assert f"| `{one.name}` | {one} |" in text
