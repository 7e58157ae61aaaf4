"""Audits in a card: those of the mechanism that is released; where one fails, nothing is."""

import json
import os

import numpy as np
import pytest

from dpgraph.audits.registry import AUDITS
from dpgraph.core.errors import UserError
from dpgraph.families.votes.sensitivity import vote_norm
from dpgraph.own_graph import audited, secret
from dpgraph.own_graph.budget import PublicNumbers, budgeted
from dpgraph.own_graph.fit import fit
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_fit import small


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
    monkeypatch.setattr("dpgraph.families.votes.prepared.vote_norm", lambda **told: vote_norm(**told) / 2**0.5)
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
        assert names[kind, relation][-2:] == [f"secret noise, {kind}, {relation}", "secret one-run"]
    assert [found[:-2] for found in names.values()] == [
        ["votes-mean", "votes"], ["votes-mean"], ["votes-mean", "votes-capped"],
    ]  # fmt: skip


NOISE = "secret noise, votes, node-null"


def test_the_audits_of_a_release_are_of_its_own_noise(monkeypatch):
    """Every bit is asked of the operating system."""
    asked = []
    urandom = os.urandom
    monkeypatch.setattr("dpgraph.own_graph.secret.os.urandom", lambda count: asked.append(count) or urandom(count))
    for name, trials in ((NOISE, 2_000), ("secret one-run", 2_000)):
        asked.clear()
        result = audited.SECRET[name](trials)
        assert result.passed, result.finding
        assert sum(asked) > 8 * trials


@pytest.mark.parametrize("kind", ["votes", "own", "votes-learnt"])
@pytest.mark.parametrize("relation", [Relation.NODE_NULL, Relation.NODE_REMOVE, Relation.EDGE])
def test_the_noise_of_every_release_is_as_accounted_for(kind, relation):
    if (kind == "own" and relation is Relation.EDGE) or (kind == "votes-learnt" and relation is not Relation.NODE_NULL):
        with pytest.raises(UserError, match="--method"):
            audited.SECRET[f"secret noise, {kind}, {relation}"](4_000)
        return
    result = audited.SECRET[f"secret noise, {kind}, {relation}"](4_000)
    assert result.passed, result.finding
    assert result.trials >= 4_000


def scaled(monkeypatch, factor):
    """All noise of the operating system, off by a factor."""
    right = secret.rounded_gaussian
    monkeypatch.setattr(secret, "rounded_gaussian", lambda *given: np.rint(factor * right(*given)))


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_ten_per_cent_of_the_noise_of_a_release_are_noticed(monkeypatch, factor):
    scaled(monkeypatch, factor)
    result = audited.SECRET[NOISE](10_000)
    assert not result.passed
    # steps, the mean of the rows, votes
    assert result.finding.count("of what was accounted for") == 3


def test_half_of_the_noise_of_a_release_is_noticed_by_canaries(monkeypatch):
    scaled(monkeypatch, 0.5)
    assert "independent trials refutes the claim" in audited.SECRET["secret one-run"](5000).finding


def one_for_both(values, std, grid, counter, held=[]):  # noqa: B006
    """The bias gets the beginning of the noise of the weight."""
    if values.size != 3:
        held[:] = [secret.rounded_gaussian(values.size, std / grid)]
    counter.numbers += values.size
    return (np.rint(values / grid) + held[0][: values.size].reshape(values.shape)) * grid


def one_for_all(values, std, grid, counter):
    """The same noise whenever it is asked for."""
    counter.numbers += values.size
    return np.rint(values / grid) * grid + std * np.random.default_rng(0).standard_normal(values.shape)


@pytest.mark.parametrize("wrong", [one_for_both, one_for_all])
def test_noise_of_a_release_that_is_used_twice_is_noticed(monkeypatch, wrong):
    monkeypatch.setattr(secret, "noised", wrong)
    result = audited.SECRET[NOISE](10_000)
    assert not result.passed
    assert "steps: " in result.finding
    assert "draws are related" in result.finding


def test_a_release_whose_own_noise_is_wrong_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(audited, "DRAWS", 10_000)
    scaled(monkeypatch, 0.9)
    with pytest.raises(UserError, match=r"audit secret noise, votes, node-null FAILED: .*: nothing is released"):
        fit(small(size=50), 4.0, method="votes", out=tmp_path / "one")
    assert not list(tmp_path.iterdir())
