"""Audits in a card: those of the mechanism that is released; where one fails, nothing is."""

import json

import pytest

from dpgraph.audits.registry import AUDITS
from dpgraph.errors import UserError
from dpgraph.fitting import audited
from dpgraph.fitting.budget import PublicNumbers, budgeted
from dpgraph.fitting.fit import fit
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.vote_sensitivity import vote_norm
from tests.fitting.test_fit import small


def test_the_card_lists_them_and_a_known_seed_has_none(tmp_path):
    fit(small(size=50), 4.0, out=tmp_path / "one")
    checks = json.loads((tmp_path / "one/release/card.json").read_text())["checks"]
    assert checks["audit lists"].startswith("passed: ")
    assert "audit lists: passed" in (tmp_path / "one/release/card.md").read_text()
    for name, more in (("two", {"seed": 1}), ("three", {"audit": False})):
        checks = fit(small(size=50), 4.0, out=tmp_path / name, **more).card["checks"]
        assert checks["audits of the mechanism"].startswith("not run by this call")


def test_where_one_fails_nothing_is_released(tmp_path, monkeypatch):
    """The run of votes with too little noise, that the audit is there to find."""
    monkeypatch.setattr(audited, "VOTES", (("votes", 64),))
    monkeypatch.setattr(audited, "MEAN", ())
    monkeypatch.setattr("dpgraph.methods.votes.prepared.vote_norm", lambda **told: vote_norm(**told) / 2**0.5)
    with pytest.raises(UserError, match=r"audit votes FAILED: .*: nothing is released"):
        fit(small(size=50), 4.0, out=tmp_path / "one")
    assert not list(tmp_path.iterdir())


def test_which_are_run(monkeypatch):
    monkeypatch.undo()
    assert {name for name, _ in (*audited.STEPS, *audited.MEAN, *audited.VOTES, *audited.REMOVED)} <= set(AUDITS)
    numbers = PublicNumbers(600, 350, 3, voters=350, mean_degree=60.0, features=3)
    names = {}
    for kind, relation in (("votes", Relation.NODE_NULL), ("own", Relation.NODE_NULL), ("votes", Relation.NODE_REMOVE)):
        found = audited.audits_of(budgeted(kind, numbers, epsilon=8.0, relation=relation))
        names[kind, relation] = [name for name, _ in found][4:]
    assert list(names.values()) == [
        ["votes-mean", "votes"], ["votes-mean"], ["votes-mean", "votes-capped", "votes-removed"],
    ]  # fmt: skip
