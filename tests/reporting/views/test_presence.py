"""What others' predictions show of who is there."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.reporting.display import MadeTable
from dpgraph.reporting.views import derived
from dpgraph.reporting.views.accuracy.table import PRESENCE_REMARK, make_presence
from dpgraph.reporting.views.derived import presence_epsilon
from tests.plans import plan_of

COUNT, FRIENDS = 500, 4
CANARIES = np.repeat(np.arange(COUNT), FRIENDS)


def coins(random: np.random.Generator) -> np.ndarray:
    return np.repeat(random.random(COUNT) < 0.5, FRIENDS)


def test_predictions_that_are_the_coin_show_what_a_run_can() -> None:
    present = CANARIES % 2 == 0
    shown = presence_epsilon(CANARIES, present, present, 0.0)
    chance = 0.005 ** (1 / 450)  # of 450 right guesses: how sure each must be
    assert shown == pytest.approx(math.log(chance / (1 - chance)), abs=1e-3)


def test_predictions_that_know_nothing_show_nothing() -> None:
    random = np.random.default_rng(1)
    assert presence_epsilon(CANARIES, random.random(len(CANARIES)) < 0.5, coins(random), 1e-5) == 0
    assert presence_epsilon(CANARIES, np.zeros(len(CANARIES), dtype=bool), coins(random), 1e-5) == 0


def test_randomised_response_is_below_its_epsilon_and_seen() -> None:
    """Friends all say one answer, right with probability e^eps / (1 + e^eps)."""
    random, shown = np.random.default_rng(2), []
    for _ in range(30):
        present = coins(random)
        right = np.repeat(random.random(COUNT) < math.exp(2) / (1 + math.exp(2)), FRIENDS)
        shown.append(presence_epsilon(CANARIES, present == right, present, 0.0))
    assert max(shown) < 2
    assert min(shown) > 1


def entry_of_a_graph(monkeypatch: pytest.MonkeyPatch, neighbours: int) -> tuple[Any, Any, Any]:
    """Eight canaries with two friends each, of which a run predicts the coins."""
    present = np.repeat([0, 1] * 4, 2)
    lists = np.arange(17 + 8) * neighbours
    graph = SimpleNamespace(train_nodes=np.arange(100), out_ptr=lists, out_idx=np.arange(lists[-1]) // 2)
    monkeypatch.setattr(derived, "stored_graph", lambda plan, task: graph)
    predictions = SimpleNamespace(
        predicted=lambda entry, seed: present if seed == 0 else None,
        tested=lambda entry, seed: (np.arange(16), present),
    )
    return None, SimpleNamespace(task_id="toy", artefact="votes/membership"), predictions


def test_of_another_graph_than_of_canaries_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, entry, predictions = entry_of_a_graph(monkeypatch, 1)
    assert derived._presence(plan, entry, 0, predictions) is not None
    assert derived._presence(plan, entry, 1, predictions) is None
    plan, entry, predictions = entry_of_a_graph(monkeypatch, 2)
    with pytest.raises(UserError, match="votes/membership: toy: expected a data set of canaries"):
        derived._presence(plan, entry, 0, predictions)


def test_the_table_says_what_the_attacker_sees() -> None:
    plan = plan_of("votes")
    assert plan.artefacts["votes/membership"].metric == "presence_epsilon/test"
    made = make_presence(plan, "votes/membership", None)
    assert isinstance(made, MadeTable)
    assert made.table.remarks[0] == PRESENCE_REMARK
    assert len(made.frame) == 6
