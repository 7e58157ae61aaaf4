"""Public rules of votes: what they read, where they fall back to own records, and that their settings are cells."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri

from dpgraph.config.cell import Task
from dpgraph.config.config import Config
from dpgraph.core.errors import UserError
from dpgraph.data.readers import sbm
from dpgraph.data.records import TEST
from dpgraph.data.registry import entry
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method, spec
from dpgraph.families.votes import rules
from dpgraph.families.votes.caps import best_caps
from dpgraph.families.votes.removed_mechanism import CappedVotes
from dpgraph.families.votes.rules import (
    FEW,
    MANY,
    own_records,
    stable_rate,
    votes,
    votes_with_caps,
    votes_with_caps_for_strangers,
    votes_with_schema,
    votes_with_schema_for_strangers,
)
from dpgraph.families.votes.sensitivity import capped_receiver_votes
from dpgraph.planning.explain import explain
from dpgraph.planning.fairness import unequal
from dpgraph.planning.plan import load_plan
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.public_numbers import gaussian_mu
from dpgraph.problems.base import Size, size_by_registry
from dpgraph.problems.node_classification.prepare import build
from tests.plans import plan_of

SMALL = Size(nodes=3000, entries=16_000, features=2900, classes=7, train_nodes=2100)
DENSE = Size(
    nodes=15_000, entries=1_200_000, features=150, classes=5, train_nodes=11_000, words=4.0, degree_bound=3200
)  # fmt: skip


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 3.3e-5, 1e-2])
def test_mu_is_that_of_the_epsilon(delta: float) -> None:
    """delta = Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2), with 50 digits: a relative 1e-9 on either side of mu
    has less, and more, than the delta that was asked for."""
    with mpmath.workdps(50):
        for epsilon in (0.01, 0.1, 1.0, 8.0, 20.0, 200.0):
            mu = mpmath.mpf(gaussian_mu(epsilon=epsilon, delta=delta))
            less, more = (
                mpmath.ncdf(-epsilon / one + one / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / one - one / 2)
                for one in (mu * (1 - mpmath.mpf("1e-9")), mu * (1 + mpmath.mpf("1e-9")))
            )
            assert less < delta < more


def test_more_budget_or_records_take_more_steps() -> None:
    """Nμ/√C decides: class sums, 5 and 20 steps for records of few words, 8 and 12 for others."""
    mu = gaussian_mu(epsilon=2.0, delta=1 / 30_000)
    for times, words, steps in (
        (0.99 * FEW, 5.0, 1), (0.99 * FEW, 50.0, 8), (1.01 * FEW, 5.0, 5), (0.99 * MANY, 5.0, 5),
        (1.01 * MANY, 5.0, 20), (1.01 * MANY, 50.0, 12),
    ):  # fmt: skip
        records = round(times * 7**0.5 / mu)
        size = Size(nodes=3000, entries=9, features=50, classes=7, train_nodes=records, words=words)
        assert own_records(size, 2.0)["training"]["steps"] == steps
    signed = replace(SMALL, signed=True)
    rates = [
        own_records(replace(signed, train_nodes=count), 1.0)["training"]["learning_rate"] for count in (1, 2100, 4e4)
    ]
    assert rates[0] == 0.5 < rates[1] < 2
    assert rates[2] == 1  # of 20 steps
    half = own_records(SMALL, 4.0, 0.5)
    assert half["training"]["steps"] <= own_records(SMALL, 4.0)["training"]["steps"]
    assert half["privacy"]["mean_share"] < own_records(SMALL, 4.0)["privacy"]["mean_share"]


def test_gradients_of_counts_of_many_words_are_short() -> None:
    """Eight or twelve steps, clipped at a quarter or half of the largest gradient, at rates as much longer; no iterates
    are averaged. Records of few words, and signed ones, have full length."""
    mu = gaussian_mu(epsilon=2.0, delta=1 / 30_000)
    largest = 10 * math.sqrt(1 - 1 / SMALL.classes)
    cases = ((100.0, 8, 0.25, 1.4), (375.0, 8, 0.25, 4.2), (1499.0, 8, 0.25, 5.6), (1501.0, 12, 0.5, 4.0))
    for signal, steps, quotient, rate in cases:
        size = replace(SMALL, train_nodes=round(signal * 7**0.5 / mu), words=50.0, features=10)
        found = own_records(size, 2.0)
        assert found["training"]["steps"] == steps
        assert found["training"]["learning_rate"] == pytest.approx(rate, rel=1e-2)
        assert found["privacy"]["clip_norm"] == pytest.approx(quotient * largest, rel=1e-5)
        assert found["training"]["averaged_share"] == 0
    for size in (DENSE, replace(SMALL, signed=True)):
        found = own_records(size, 2.0)
        assert found["privacy"]["clip_norm"] == pytest.approx(10 * math.sqrt(1 - 1 / size.classes), rel=1e-5)


def test_descent_does_not_swing_on_records_of_few_words() -> None:
    """In the worst case of the rule, one word in half of all records: the loss falls in every step, and not at 3 times
    the rate."""
    size = replace(DENSE, classes=2, words=2.0)
    random = np.random.default_rng(0)
    word = np.where(np.arange(400) < 200, 1.0, -1.0)  # centred
    rows = 10 * np.column_stack([word, random.choice([-1.0, 1.0], 400)]) / math.sqrt(2)
    labels = np.where(random.random(400) < 0.6, word > 0, word <= 0).astype(int)

    def losses(times: float) -> np.ndarray:
        weights, moving, found = np.zeros((2, 2)), np.zeros((2, 2)), []
        for _ in range(12):
            logits = rows @ weights
            chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            found.append(-np.log(chances[np.arange(400), labels]).mean())
            moving = 0.5 * moving + rows.T @ (chances - np.eye(2)[labels]) / 400
            weights = weights - times * stable_rate(size, 0.5) * moving
        return np.array(found)

    assert losses(0.3).max() == losses(0.3)[0]
    assert losses(1.0)[-1] < losses(1.0)[0] < losses(3.0)[-1]
    assert stable_rate(replace(DENSE, words=None), 0.5) == math.inf
    assert own_records(DENSE, 2.0)["training"]["learning_rate"] == round(stable_rate(DENSE, 0.9), 3)


def test_a_reader_is_learnt_where_many_votes_of_a_class_add_up_else_chosen() -> None:
    """Mean degree times N mu / C of 1,750; a learnt one starts from the fixed one, where few words trust votes more."""
    for size, epsilon, learnt in ((SMALL, 2.0, False), (SMALL, 8.0, True), (DENSE, 0.5, True), (DENSE, 1.0, True)):
        heard = size.entries / size.nodes * size.train_nodes * rules._mu(size, epsilon) / size.classes
        assert (heard >= 1750) is learnt is rules.learns(size, epsilon)
        privacy = votes(size, epsilon)["privacy"]
        assert privacy.get("choice_epsilon") == (None if learnt else epsilon / 20)
        assert privacy.get("reader_share", 0) == (0.03 if learnt else 0)
        assert ("strength" in privacy) is learnt
    assert votes(DENSE, 0.5)["privacy"]["strength"] > votes(SMALL, 8.0)["privacy"]["strength"]
    assert votes(DENSE, 0.5)["privacy"]["votes_share"] == 0.7


def test_the_claim_on_readers_names_those_that_the_rule_takes() -> None:
    plan = plan_of("votes")
    claim = plan.experiments["votes"].claims["OV25"]
    taken = {(term.task, term.epsilon, term.value) for part in claim.parts for term in part.terms if term.times > 0}
    tasks = {entry.task_id: entry.cell.task for entry in plan.entries_of("votes/readers")}
    assert len(taken) == 2 * len(tasks) == 12
    for task, epsilon, value in taken:
        dataset = tasks[task]
        size = size_by_registry(dataset, entry(dataset.dataset))
        assert value == ("learnt" if rules.learns(size, epsilon) else "chosen")


def test_where_few_votes_would_add_up_there_are_none() -> None:
    sparse = Size(nodes=3000, entries=9000, features=2900, classes=3, train_nodes=2100)
    assert votes(sparse, 1.0) == own_records(sparse, 1.0)
    assert votes(sparse, 8.0)["privacy"]["votes_share"] == 0.5
    assert votes(SMALL, 1.0)["privacy"]["votes_share"] == 0.3
    for rule in (votes_with_caps, votes_with_schema):
        assert rule(DENSE, 0.5)["privacy"]["votes_share"] == 0
        assert rule(DENSE, 8.0)["privacy"]["votes_share"] > 0.6
        assert rule(DENSE, 8.0)["privacy"]["hub_share"] > 0
    assert votes_with_caps(SMALL, 8.0)["privacy"]["votes_share"] == 0
    assert votes_with_caps(DENSE, 2.0)["privacy"]["votes_share"] > 0
    many = replace(DENSE, words=100.0)  # records that say much
    assert votes_with_caps(many, 2.0)["privacy"]["votes_share"] == 0
    assert votes_with_caps(many, 8.0)["privacy"]["strength"] < votes_with_caps(DENSE, 8.0)["privacy"]["strength"]
    assert votes_with_schema(DENSE, 8.0)["privacy"]["degree_bound"] == 3200
    with pytest.raises(UserError, match="expected a data set whose registry entry assumes a degree_bound"):
        votes_with_schema(SMALL, 8.0)


def test_for_strangers_constants_read_two_hops_and_nothing_is_chosen() -> None:
    """Where the buckets of a whole list say too little, nobody votes; else kappa and beta are the rule's."""
    for rule, variant in (
        (votes_with_caps_for_strangers, "node-remove-capped-strangers"),
        (votes_with_schema_for_strangers, "node-remove-strangers"),
    ):
        assert rule(DENSE, 0.1)["privacy"]["votes_share"] == 0
        for epsilon in (0.1, 1.0, 8.0):
            privacy = rule(DENSE, epsilon)["privacy"]
            assert privacy["variant"] == variant
            assert "choice_epsilon" not in privacy
        assert privacy["votes_share"] > 0.6
        assert (privacy["shrinkage"], privacy["strength"]) == (3.0, 8.0)
        many = rule(replace(DENSE, words=100.0), 8.0)["privacy"]  # records that say much
        assert (many["shrinkage"], many["strength"]) == (1.0, 2.0)
    assert votes_with_caps_for_strangers(SMALL, 1.0)["privacy"]["votes_share"] == 0
    with pytest.raises(UserError, match="public_rule=votes-with-schema-strangers: expected a data set whose registry"):
        votes_with_schema_for_strangers(SMALL, 8.0)


def test_a_schema_never_lowers_the_signal_and_neither_does_epsilon() -> None:
    mus = [gaussian_mu(epsilon=epsilon, delta=1e-6) for epsilon in (1.0, 4.0, 8.0)]
    signals = [[best_caps(DENSE, mu, bound, 0.2).signal for mu in mus] for bound in (None, 3200, 400)]
    assert signals == sorted(signals)
    assert all(row == sorted(row) for row in signals)


@pytest.mark.parametrize(("size", "bound", "hubs"), [(DENSE, None, True), (DENSE, 400, False), (SMALL, None, True)])
def test_caps_are_the_best_of_the_grid(size: Size, bound: int | None, hubs: bool) -> None:
    """One setting after the other, at the same quantiles of degrees: none has a larger signal."""
    mu, training, delta = gaussian_mu(epsilon=8.0, delta=1e-6), 0.2, 1 / (10 * size.nodes)
    found = best_caps(size, mu, bound, training)
    degree, share = size.entries / size.nodes, size.train_nodes / size.nodes
    points = [-math.log(1 - (place + 0.5) / 12) for place in range(12)]
    most = min(size.nodes - 1 if bound is None else bound, size.train_nodes)
    sends = min(size.nodes - 1 if bound is None else bound, size.nodes - size.train_nodes)
    signals = {}
    for hub, times in [(0.0, 0.0), *((one, two) for one in (0.02, 0.1, 0.2) for two in (2.0, 6.0, 12.0))]:
        reach, arrive, limit = most, [share * degree * point for point in points], 0.0
        if hub:
            limit, std = math.ceil(times * share * degree) + 10.0, math.sqrt(sends / hub) / mu
            reach = math.ceil(limit - ndtri(delta / 20) * std)
            arrive = [one * ndtr((limit - one) / std) for one in arrive]
            if reach >= most:
                continue
        for margin in (0.5, 1.0, 2.0, 3.0):
            for floor in (8, 64, 256, 1024):
                moved = capped_receiver_votes(degree_bound=reach, margin=margin, degree_floor=floor, failure=delta / 20)
                if (left := 0.97 - moved**2 * (1 - training - hub)) < 0.05:
                    continue
                cap = [max((1 - share) * degree * point + 1 + margin * math.sqrt(reach / left) / mu, floor)
                       for point in points]  # fmt: skip
                weight = sum(point / math.sqrt(one) for point, one in zip(points, cap, strict=True)) / sum(points)
                over = mu * math.sqrt((1 - training - hub) / (1 - 1 / size.classes))
                signals[hub, limit, margin, floor] = float(np.mean(arrive)) * weight * over
    assert max(signals.values()) <= found.signal * (1 + 1e-9)
    assert max(signals.values()) > 0.8 * found.signal  # of a coarser grid
    assert bool(found.hub_share) == hubs
    chosen = found.hub_share, found.hub_limit, found.margin, found.floor
    assert signals.get(chosen, found.signal) == pytest.approx(found.signal)


def test_settings_of_caps_spend_the_whole_budget_of_both_sides() -> None:
    """The side that decides epsilon is never far from the other: nobody's budget is left over by more than a tenth."""
    part = votes_with_caps(DENSE, 8.0)
    cell = resolve({**part, "task": {"dataset": "toy"}, "method": "dp-votes", "seeds": [0],
                    "privacy": {**part["privacy"], "epsilon": 8.0}})  # fmt: skip
    mechanism = calibrate(cell, DENSE.train_nodes, num_protected=DENSE.nodes).mechanism
    assert isinstance(mechanism, CappedVotes)
    steps, noise = mechanism.closed()
    voter = math.sqrt(steps / noise**2 + mechanism.release_mu**2)
    assert 0.9 < mechanism.received_mu / voter < 1.1


@pytest.mark.parametrize("size", [SMALL, DENSE])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_a_rule_makes_cells_that_have_their_epsilon(size: Size, epsilon: float) -> None:
    for name, rule in spec("dp-votes").rules.items():
        if name.startswith("votes-with-schema") and size.degree_bound is None:
            continue
        part = rule(size, epsilon)
        cell = resolve({**part, "task": {"dataset": "toy"}, "method": "dp-votes", "seeds": [0],
                        "privacy": {**part["privacy"], "epsilon": epsilon}})  # fmt: skip
        found = calibrate(cell, size.train_nodes, num_protected=size.nodes).statement.rigorous
        assert 0.99 * epsilon < found.epsilon <= epsilon


def test_wide_records_of_words_have_class_sums_until_their_signal_is_large() -> None:
    """Of Cora-ML's numbers; not with a tenth of the features, nor of dense rows."""
    wide = Size(nodes=2995, entries=16316, features=2879, classes=7, train_nodes=2096, words=50.5)
    steps = [own_records(wide, epsilon)["training"]["steps"] for epsilon in (1.0, 2.0, 4.0, 8.0)]
    assert steps == [1, 1, 8, 8]
    for other in (replace(wide, features=288), replace(wide, words=None)):
        assert [own_records(other, epsilon)["training"]["steps"] for epsilon in (1.0, 2.0, 4.0)] == [8, 8, 8]


def test_a_rule_needs_a_target_and_its_name() -> None:
    with pytest.raises(UserError, match=r"privacy.epsilon=None: expected a target"):
        votes(SMALL, None)
    with pytest.raises(UserError, match="public_rule=vots: expected own-records or votes or votes-with-caps or"):
        spec("dp-votes").by_rule("vots", SMALL, 1.0)


def test_suite_votes_takes_its_settings_from_rules() -> None:
    plan = plan_of("votes")
    assert unequal(plan) == []
    ruled = {entry.method_id for entry in plan.entries if entry.cell.slug in plan.by_public_rule}
    strangers = {"votes-strangers", "votes-remove-strangers"}
    assert ruled == {"own", "raw-graph", "votes", "votes-remove", "votes-schema"} | strangers
    entries = [one for one in plan.entries_of("votes/accuracy") if (one.method_id, one.task_id) == ("votes", "cora-ml")]
    cells = {entry.target_epsilon: entry.cell for entry in entries}
    assert cells[1].privacy.votes_share < cells[8].privacy.votes_share  # by epsilon
    (rows,) = explain(plan, cells[8].slug).values()
    source = {row["setting"]: row["from"] for row in rows}["training.steps"]
    assert source.endswith("public rule votes")


def test_features_that_are_declared_to_be_of_either_sign_are_kept() -> None:
    """Gaussian features: the rule for counts drops those whose noisy sum is negative, half of them, and what is left
    says less. Declared, never looked up: nothing changes for other data sets."""
    task = Task(dataset="demo-sbm")
    known = entry("demo-sbm")
    graph = build(task, known, sbm.read(Path(), **known.options))  # type: ignore[arg-type]
    declared, silent = (
        size_by_registry(task, known.model_copy(update={"expected": known.expected.model_copy(update={"signed": one})}))
        for one in (True, None)
    )
    assert size_by_registry(task, known) == declared
    assert size_by_registry(task.model_copy(update={"features": "project-8"}), entry("cora")).signed

    def right(size: Size, rule: Any) -> float:
        part = rule(size, 4.0)
        cell = resolve({**part, "task": task.model_dump(), "method": "dp-votes", "seeds": [0],
                        "privacy": {**part["privacy"], "epsilon": 4.0}})  # fmt: skip
        calibration = calibrate(cell, len(graph.train_nodes), default_cache(), num_protected=graph.num_nodes)
        (job,) = make_jobs(graph, cell, [0], calibration, torch.device("cpu"))
        logits = method("dp-votes").run(job, lambda step, logits: {}).logits
        return float((logits.argmax(axis=1) == graph.labels)[graph.split == TEST].mean())

    assert right(declared, own_records) > right(silent, own_records) + 0.1
    assert right(declared, votes) > right(silent, votes)
    for rule in (own_records, votes):
        kept, usual = rule(declared, 4.0), rule(silent, 4.0)
        assert kept["privacy"].pop("signed_rows")
        assert kept["privacy"]["clip_norm"] > usual["privacy"]["clip_norm"]
        assert kept["training"]["steps"] == 5


def test_peers_read_what_was_searched_for_their_epsilon(tmp_path: Path) -> None:
    """At 1 and 2 what was chosen at 1, above what was chosen at 8; on a data set that was searched, of the others."""
    shutil.copytree("workflow", tmp_path / "workflow")
    for epsilon, receivers in ((1, 30), (8, 300)):
        one = {"trial": "trial 1", "set": {"privacy": {"receivers": receivers}}, "chosen_on": ["amazon-photo"]}
        of_photo = {**one, "set": {"privacy": {"receivers": 77}}, "chosen_on": ["pubmed"]}
        method = {"private": True, "epsilon": epsilon, "trials": 1, "seeds": {"amazon-photo": 1, "pubmed": 1},
                  "datasets": {"amazon-photo": of_photo}, "others": one,
                  "scores": {"trial 1": {"amazon-photo": 50.0, "pubmed": 50.0}}}  # fmt: skip
        made = {
            "suite": "search",
            "commit": "0" * 12,
            "papers": {"votes": {"gap": method, "progap": method, "dpdgc": method}},
        }
        (tmp_path / f"workflow/settings/search-peers-{epsilon}.yaml").write_text(json.dumps(made), encoding="utf-8")
    plan = load_plan(Config(suite="votes"), tmp_path / "workflow")
    found = {
        (entry.method_id, entry.task_id, entry.target_epsilon): entry.cell.privacy.receivers  # type: ignore[union-attr]
        for entry in plan.entries
        if entry.method_id in ("gap", "progap", "gap-proved", "progap-proved") and entry.value is None
    }
    assert {found["gap", "cornell5", 1], found["progap", "cornell5", 1]} == {30}
    assert {found["gap", "cornell5", 8], found["progap", "johnshopkins55", 8]} == {300}
    assert found["gap", "amazon-photo", 8] == 77
    assert all(value != 100 for value in found.values())
