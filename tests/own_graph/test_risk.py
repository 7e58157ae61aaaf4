"""Risk in words: the advantage of an attacker is that of the proved curve, and a budget can be stated by it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.families.votes.epsilon import TradeOff, released_epsilon
from dpgraph.own_graph import risk
from dpgraph.own_graph.budget import PublicNumbers, budgeted, planned
from dpgraph.own_graph.classes import ClassSelection
from dpgraph.own_graph.compare import compare
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.model import load
from dpgraph.privacy.public_numbers import gaussian_mu
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_fit import small, write_csv

ASKED = {"epsilon": None, "delta": None, "relation": Relation.NODE_NULL, "all_outputs": False}
MANY = PublicNumbers(4000, 4000, 4, mean_degree=30.0, features=700)
PUBLIC = ["afford", "--nodes", "4000", "--classes", "4", "--labelled", "4000"]


def without(one, two, sure):
    """Masses (2, m) of all outcomes of two laws, with a part `sure` that tells them apart."""
    masses = (1 - sure) * np.stack([one, two])
    return np.concatenate([masses, [[sure, 0.0], [0.0, sure]]], axis=1)


def likeliest(mu, choice, sure=0.0, cells=40_001):
    """(advantage, TPR at 1 % FPR) of the best test, by thresholds on the likelihood ratio of every outcome.

    Outcomes are a cell of the line and the bit of a randomised response: nothing of the package's own formulas.
    """
    edges = np.linspace(-9, mu + 9, cells)
    absent, present = (np.diff(norm.cdf(edges, mean)) for mean in (0.0, mu))
    yes = 1 / (1 + math.exp(-choice))
    absent = np.concatenate([(1 - yes) * absent, yes * absent])
    present = np.concatenate([yes * present, (1 - yes) * present])
    absent, present = without(absent, present, sure)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(absent + present > 0, present / (absent + present), 0))
    false, true = (np.concatenate([[0.0], np.cumsum(side[order])]) for side in (absent, present))
    return (true - false).max(), np.interp(0.01, false, true)


@pytest.mark.parametrize(
    ("mu", "choice", "failure"),
    [(0.5, 0, 0), (1.12, 0, 0), (0.9, 0.2, 0), (0.2, 0.6, 0), (5.5, 0, 0), (1.0, 0.4, 0.05), (1e-9, 0.4, 0)],
)
def test_both_numbers_are_those_of_the_best_test(mu, choice, failure):
    curve = TradeOff(mu=mu, choice=choice, failure=failure)
    advantage, found = likeliest(mu, choice, failure)
    assert advantage <= curve.advantage + 1e-6
    assert found <= curve.true_positives + 1e-6
    assert curve.advantage == pytest.approx(advantage, abs=failure * advantage + 1e-4)
    assert curve.true_positives == pytest.approx(found, abs=failure + 1e-4)
    first, second = curve.errors(np.linspace(-curve.reach, curve.reach, 20_001))
    assert (1 - first - second).max() == pytest.approx(curve.advantage, abs=1e-5)


def test_an_attack_on_a_gaussian_mechanism_stays_below_its_advantage():
    what = budgeted("own", MANY, epsilon=4.0)
    steps, noise = what.mechanism.closed()
    rng, trials = np.random.default_rng(0), 200_000
    present, absent = (  # the sum of its steps and its mean, each in units of its sensitivity
        sum(mu * (shift * mu + rng.normal(size=trials)) for mu in (np.sqrt(steps) / noise, what.mechanism.mean_mu))
        for shift in (1.0, 0.0)
    )  # fmt: skip
    threshold = what.mu**2 / 2
    gap = (present > threshold).mean() - (absent > threshold).mean()
    within = 3 / math.sqrt(2 * trials)
    assert what.trade_off.advantage - 0.01 < gap < what.trade_off.advantage + within
    found = (present > np.quantile(absent, 0.99)).mean()
    assert what.trade_off.true_positives - 0.01 < found < what.trade_off.true_positives + 0.01


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 30), st.floats(1.01, 2), st.floats(1e-9, 1e-3), st.sampled_from([*risk.TOLD][:3]))
def test_more_epsilon_is_more_advantage(epsilon, times, delta, relation):
    def curve(one):
        if relation is Relation.EDGE:
            return TradeOff(mu=gaussian_mu(epsilon=one, delta=delta))
        selection = ClassSelection.within(epsilon=one, delta=delta)
        return risk.with_classes(selection, relation, epsilon=one, delta=delta)

    less, more = curve(epsilon), curve(times * epsilon)
    assert less.advantage <= more.advantage
    assert less.true_positives <= more.true_positives + 1e-9
    assert 0.01 < less.true_positives <= less.advantage + 0.01 + 1e-9
    assert less.advantage <= math.tanh(epsilon / 2) + delta + 1e-6  # of any mechanism of that epsilon


def test_numbers_of_known_budgets():
    """mu = 1.12 and .90 at epsilon 4 and delta 1 / (10 N)."""
    for nodes, mu, advantage, found in ((300, 1.12, 0.426, 0.115), (20_000, 0.90, 0.346, 0.077)):
        curve = budgeted("own", PublicNumbers(nodes, nodes, 3, features=6), epsilon=4.0).trade_off
        assert curve.mu == pytest.approx(mu, abs=0.005)
        assert risk.rounded_up(curve.advantage, 1000) == advantage
        assert risk.rounded_up(curve.true_positives, 1000) == found
    assert "advantage of at most 0.346 (0: guessing" in risk.in_words(curve, Relation.NODE_NULL)
    assert "of 100 records at most 7.7 are found at 1 false alarm" in risk.in_words(curve, Relation.NODE_NULL)


def test_the_table_of_the_docs_is_that_of_the_curve():
    page = (Path(__file__).resolve().parents[2] / "docs/privacy/votes.md").read_text().partition("## What a test")[2]
    for nodes in (300, 20_000):
        (row,) = (line for line in page.splitlines() if line.startswith(f"| N = {nodes:,} |"))
        for epsilon, cell in zip((0.5, 1, 2, 4, 8, 16, 32), row.strip("| ").split(" | ")[1:], strict=True):
            curve = TradeOff(mu=gaussian_mu(epsilon=epsilon, delta=1 / (10 * nodes)))
            found = [risk.rounded_up(one, 1000) for one in (curve.advantage, curve.true_positives)]
            assert [float(one) for one in cell.split(", ")] == found


@pytest.mark.parametrize("choice", [False, True])
def test_a_curve_has_the_epsilon_that_is_stated_under_every_relation(choice):
    what = budgeted("votes" if choice else "votes-learnt", MANY, epsilon=4.0)
    assert (what.choice > 0) == choice
    assert what.trade_off == TradeOff(mu=what.mu, choice=what.choice)
    for one in what.calibration.statement.beside:
        curve = what.trade_off_beside(one.relation)
        found = released_epsilon(mu=curve.mu, choice=curve.choice, delta=one.delta)
        assert found == pytest.approx(one.epsilon, rel=1e-6)
        assert curve.choice == what.choice * {Relation.RECORD_REPLACE: 2, Relation.EDGE: 4}[one.relation]
    edge = budgeted("votes", MANY, epsilon=2.0, relation=Relation.EDGE)
    curve = edge.trade_off_beside(Relation.NODE_NULL)
    assert released_epsilon(mu=curve.mu, choice=0.0, delta=edge.delta) == pytest.approx(
        edge.epsilon_of(Relation.NODE_NULL), rel=1e-6
    )


def test_a_curve_of_unlikely_events_counts_them():
    numbers = PublicNumbers(6000, 3000, 3, voters=3000, mean_degree=200.0, features=3)
    what = budgeted("votes", numbers, epsilon=8.0, relation=Relation.NODE_REMOVE, delta=1e-4)
    assert 0 < what.failure == what.trade_off.failure
    assert what.trade_off.advantage == pytest.approx(TradeOff(mu=what.mu).advantage + what.failure, rel=1e-12)
    with pytest.raises(TypeError, match="no statement"):
        what.trade_off_beside(Relation.EDGE)


@pytest.mark.parametrize("relation", [Relation.NODE_NULL, Relation.NODE_REMOVE])
def test_a_choice_of_classes_is_in_the_curve_whatever_was_chosen(relation):
    """All outcomes have one curve, which is worse than that of each alone, and better than (epsilon, delta) says."""
    selection = ClassSelection.within(epsilon=4.0, delta=2e-5)
    curves = set()
    for classes, labelled in ((2, 4000), (9, 3000), (3, 20)):
        numbers = PublicNumbers(5000, labelled, classes, voters=4000 if relation is Relation.NODE_REMOVE else None,
                                mean_degree=80.0, features=30)  # fmt: skip
        what = budgeted("auto", numbers, epsilon=4.0, delta=2e-5, relation=relation, selection=selection)
        alone = TradeOff(
            mu=what.mu, choice=what.choice + float(selection.epsilon), failure=what.failure + selection.delta
        )
        assert alone.advantage <= what.trade_off.advantage < math.tanh(2.0) / 2
        assert alone.true_positives <= what.trade_off.true_positives
        curves.add(what.trade_off)
    assert len(curves) == 1
    (curve,) = curves
    assert curve.failure == pytest.approx(5e-6 if relation is Relation.NODE_NULL else 2e-5)
    assert curve.choice >= float(selection.epsilon)


def test_a_run_beyond_what_classes_leave_has_no_curve(monkeypatch):
    what = budgeted("own", MANY, epsilon=4.0, delta=2e-5, selection=ClassSelection.within(epsilon=4.0, delta=2e-5))
    monkeypatch.setattr(type(what), "mu", property(lambda self: 5.0))
    with pytest.raises(TypeError, match="what a choice of classes leaves"):
        _ = what.trade_off


@pytest.mark.parametrize("relation", [Relation.NODE_NULL, Relation.NODE_REMOVE, Relation.EDGE])
@pytest.mark.parametrize("advantage", [0.01, 0.2, 0.6, 0.99])
def test_a_budget_stated_as_an_advantage_is_kept_and_used(advantage, relation):
    numbers = MANY if relation is not Relation.NODE_REMOVE else PublicNumbers(
        6000, 3000, 3, voters=3000, mean_degree=200.0, features=3
    )  # fmt: skip
    what = planned("auto", numbers, **(ASKED | {"relation": relation}), advantage=advantage)
    assert 0.99 * advantage < what.trade_off.advantage
    assert risk.rounded_up(what.trade_off.advantage) <= advantage
    epsilon = risk.epsilon_with_classes(advantage, 1e-6, relation)
    selection = ClassSelection.within(epsilon=epsilon, delta=1e-6)
    curve = risk.with_classes(selection, relation, epsilon=epsilon, delta=1e-6)
    assert 0.99 * advantage < curve.advantage
    assert risk.rounded_up(curve.advantage) <= advantage


@pytest.mark.parametrize(
    ("budget", "named"),
    [
        ({}, "--epsilon, --advantage: expected one of the two"),
        ({"epsilon": 4.0, "advantage": 0.2}, "--epsilon, --advantage: expected only one of the two"),
        ({"advantage": 0.0}, "--advantage=0.0: expected a number in 0.001..0.999"),
        ({"advantage": 1.0}, "--advantage=1.0: expected a number in 0.001..0.999"),
        ({"advantage": math.nan}, "--advantage=nan: expected"),
        ({"advantage": -0.2}, "--advantage=-0.2: expected"),
    ],
    ids=["none", "both", "0", "1", "nan", "negative"],
)
def test_a_budget_is_stated_once_and_within_limits(budget, named, tmp_path, capsys):
    for function in (fit, compare):
        with pytest.raises(UserError, match=named):
            function(small(), **budget)
    options = [f"--{name}={value}" for name, value in budget.items()]
    data = ["--edges", str(tmp_path / "none"), "--nodes", str(tmp_path / "none")]
    for command in (PUBLIC, ["fit", *data, "--out", str(tmp_path / "out")], ["compare", *data]):
        assert main([*command, *options]) == 2
        assert named in capsys.readouterr().err
    with pytest.raises(UserError, match=r"--advantage 0\.001: delta = 0\.05 alone takes it"):
        risk.epsilon_for(0.001, 0.05, lambda epsilon: TradeOff(mu=epsilon, failure=0.05))


@pytest.mark.parametrize("given", [True, False])
def test_a_release_of_an_advantage_says_so_everywhere(given, tmp_path, capsys):
    data = write_csv(tmp_path, size=400)
    data = data if given else data[: data.index("--classes")]
    assert main(["fit", *data, "--advantage", ".4", "--no-audit", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    first = next(line for line in said.splitlines() if line.startswith("risk: "))
    assert said.index("risk: ") < said.index("assumed: ")
    card = json.loads((tmp_path / "out/release/card.json").read_text())
    assert 0.396 < card["advantage"] <= 0.4
    assert card["false_positives"] == 0.01 < card["true_positives"] < 0.2
    assert "--advantage 0.4" in card["command"]
    assert "--epsilon" not in card["command"]
    assert f"risk: {card['risk_in_words']}" == first
    assert "with an advantage of at most 0.4 (0: guessing, 1: certain)" in first
    text = (tmp_path / "out/release/card.md").read_text()
    assert f"Risk: {card['risk_in_words']}." in text
    (edge,) = (one for one in card["beside"] if one["relation"] == "edge")
    assert 0 < edge["advantage"] < 0.4
    assert "whether two nodes are joined by an edge" in edge["risk_in_words"]
    assert edge["risk_in_words"] in text
    assert load(tmp_path / "out").header.advantage == card["advantage"]
    assert card["status"] == "private"
    assert not any("advantage" in one for one in card["warnings"])


@pytest.mark.parametrize("given", [True, False])
def test_a_release_that_protects_hardly_anybody_is_never_called_private_without_saying_so(given, tmp_path, capsys):
    data = write_csv(tmp_path, size=200)
    data = data if given else data[: data.index("--classes")]
    assert main(["fit", *data, "--epsilon", "100", "--no-audit", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    weak = "protects hardly anybody: an attacker's advantage is up to 1 (0: guessing, 1: certain)"
    assert f"warning: this release {weak}" in said
    assert f"{weak}: {tmp_path / 'out'}" in said
    assert f"Can this graph afford epsilon = 100? yes, but that {weak}." in said
    card = json.loads((tmp_path / "out/release/card.json").read_text())
    assert card["status"] == load(tmp_path / "out").status == weak
    assert any(weak in one for one in card["warnings"])
    text = (tmp_path / "out/release/card.md").read_text()
    assert f"**{weak}**" in text
    for page in (said, text):
        assert not [line for line in page.splitlines() if line.replace("*", "").split(":")[0] == "private"]


@pytest.mark.parametrize(("advantage", "warned"), [(0.89, False), (0.9, True), (0.95, True)])
def test_a_warning_begins_at_nine_tenths(advantage, warned, capsys):
    assert bool(risk.weakness(advantage)) == warned
    mu = 2 * norm.ppf((1 + advantage + 1e-12) / 2)
    assert bool(risk.risk_warnings(TradeOff(mu=mu))) == warned


def test_afford_says_the_risk_and_takes_an_advantage(capsys):
    assert main([*PUBLIC, "--epsilon", "1e6"]) == 0
    said = capsys.readouterr().out
    assert "? yes, but that protects hardly anybody" in said
    assert "Risk: an attacker who knows everything else tells" in said
    assert main([*PUBLIC, "--advantage", ".2", "--relation", "edge"]) == 0
    said = capsys.readouterr().out
    assert "hardly" not in said
    assert "Risk: an attacker who knows everything else tells whether two nodes are joined by an edge with" in said
    assert "at most 0.2 (0: guessing" in said


def test_a_known_seed_promises_no_advantage(tmp_path):
    said = []
    fitted = fit(small(), advantage=0.2, seed=1, out=tmp_path / "out", say=said.append)
    assert next(line for line in said if not line.startswith("read: ")).startswith(
        "risk: the seed is known, so that no one is protected"
    )
    card = fitted.card
    assert [card[name] for name in ("advantage", "true_positives", "false_positives", "risk_in_words")] == [None] * 4
    assert fitted.model.header.advantage is None
    assert card["status"] == "not private: seed known"
    assert "Risk" not in (tmp_path / "out/not-private/card.md").read_text()


def test_a_card_says_that_the_order_of_arrays_is_public(tmp_path):
    said = "ids are places in arrays, whose order is public, too: it may not follow labels"
    assert said in fit(small(), 4.0).card["assumptions"][0]
    assert main(["fit", *write_csv(tmp_path), "--epsilon", "4", "--no-audit", "--out", str(tmp_path / "out")]) == 0
    assert said not in (tmp_path / "out/release/card.md").read_text()


def test_compare_says_at_which_epsilon_an_advantage_is_compared():
    said = []
    found = compare(small(), advantage=0.3, methods=["votes", "own"], seeds=1, say=said.append)
    (line,) = (one for one in said if one.startswith("compared at epsilon = "))
    assert "of a Gaussian mechanism whose advantage is 0.3" in line
    epsilon = float(line.split()[4].rstrip(","))
    assert TradeOff(mu=gaussian_mu(epsilon=epsilon, delta=1 / 2000)).advantage == pytest.approx(0.3, abs=1e-3)
    for row in found.rows:
        assert row.epsilon == pytest.approx(epsilon, rel=1e-3)
