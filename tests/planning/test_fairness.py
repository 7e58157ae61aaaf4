"""Cells that an artefact compares differ in nothing but what it varies, or what is declared with a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpgraph.planning.fairness import settings_of, unequal
from dpgraph.planning.plan import Plan
from dpgraph.problems.registry import size_of
from tests.plans import plan_of

SUITES = sorted(path.stem for path in Path("workflow/suites").glob("*.yaml"))


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_compares_like_with_like(suite: str) -> None:
    assert unequal(plan_of(suite)) == []


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("cpu")


def changed(plan: Plan, artefact: str, method: str, value: str | None, **settings: dict[str, object]) -> list[str]:
    """What is found where one entry of an artefact has other settings."""
    entries = list(plan.entries)
    place = next(
        index
        for index, entry in enumerate(entries)
        if (entry.artefact, entry.method_id, entry.value) == (artefact, method, value)
    )
    cell = entries[place].cell
    parts = {name: getattr(cell, name).model_copy(update=part) for name, part in settings.items()}
    entries[place] = replace(entries[place], cell=cell.model_copy(update=parts))
    return unequal(replace(plan, entries=tuple(entries)))


def test_epochs_of_two_parts_of_a_sweep(plan: Plan) -> None:
    """As suite cpu once had it: 2,000 epochs on the whole graph against 200 in ten parts."""
    lines = changed(plan, "igamberdiev/fig4", "dp-gcn-sgd-released", "10", training={"steps": 2000})
    assert any("fig4: dp-gcn-sgd-released" in line and "epochs=" in line and "200" in line for line in lines)


@pytest.mark.parametrize(
    ("method", "part", "path"),
    [
        ("gcn-1", {"model": {"inference_own_weight": 0.25}}, "model.inference_own_weight"),
        ("dp-gcn-1", {"model": {"width": 128}}, "model.width"),
        ("dp-mlp", {"training": {"steps": 200}}, "epochs"),
        ("dp-gcn-1", {"privacy": {"delta": 1e-3}}, "privacy.delta"),
        ("dp-gcn-1-sgd", {"training": {"sampling_rate": 0.5}}, "training.sampling_rate"),
    ],
)
def test_what_one_method_alone_is_given(plan: Plan, method: str, part: dict, path: str) -> None:
    lines = changed(plan, "daigavane/table1", method, None, **part)
    assert lines
    assert all(f": {path}=" in line or ": epochs=" in line for line in lines)
    assert any(f": {path}=" in line for line in lines)


@pytest.mark.parametrize(
    ("method", "part", "path"),
    [
        ("mlp", {"training": {"learning_rate": 1e-6}}, "training.learning_rate"),
        ("dp-mlp-published", {"training": {"learning_rate": 1e-6}}, "training.learning_rate"),
        ("dp-gcn-1-sgd-published", {"training": {"learning_rate": 0.01}}, "training.learning_rate"),
        ("gcn-1", {"model": {"dropout": 0.3}}, "model.dropout"),
        ("dp-gcn-1", {"privacy": {"clip_norm": 7.0}}, "privacy.clip_norm"),
    ],
)
def test_searched_settings_are_those_that_were_chosen(plan: Plan, method: str, part: dict, path: str) -> None:
    lines = changed(plan, "daigavane/table1", method, None, **part)
    assert any(f": {path}=" in line and method in line for line in lines)


def test_a_rule_of_the_suite_cannot_change_what_a_method_is(plan: Plan) -> None:
    """That methods differ in their optimisers allows the two that they name, and no third one."""
    pair = "igamberdiev/table2: gcn-sgd on cora and gcn-adam on cora: training.optimizer"
    assert not any(line.startswith(pair) for line in changed(plan, "igamberdiev/table2", "gcn-adam", None))
    lines = changed(plan, "igamberdiev/table2", "gcn-adam", None, training={"optimizer": "other"})
    assert f"{pair}=sgd and other" in lines


def test_an_epoch_is_as_many_steps_as_there_are_parts(plan: Plan) -> None:
    entries = {entry.value: entry.cell for entry in plan.entries_of("igamberdiev/fig4")
               if (entry.method_id, entry.task_id) == ("dp-gcn-sgd-released", "cora")}  # fmt: skip
    assert {value: settings_of(cell)["epochs"] for value, cell in entries.items()} == dict.fromkeys(
        ["1", "4", "10"], 2000
    )


def test_between_the_artefacts_of_a_claim(plan: Plan) -> None:
    """D7 compares GIN of Table 4 with GCN of Table 2."""
    lines = changed(plan, "daigavane/table4", "dp-gin-1-published", None, model={"width": 128})
    across = [line for line in lines if "(table2)" in line]
    pair = "daigavane/table4: dp-gin-1-published on pubmed-disjoint and dp-gcn-1-published on pubmed-disjoint (table2)"
    assert f"{pair}: model.width=128 and 64" in across
    assert all(line.startswith("daigavane/table4: dp-gin-1-published on pubmed-disjoint and") for line in across)


def test_batches_of_a_number_and_of_a_share_are_the_same_epochs(plan: Plan) -> None:
    cell = next(entry.cell for entry in plan.entries_of("daigavane/table1") if entry.method_id == "dp-mlp")
    nodes = size_of(cell.task).train_nodes
    share = cell.training.model_copy(update={"sampling_rate": 0.5, "batch_size": None, "steps": 10})
    number = share.model_copy(update={"sampling_rate": None, "batch_size": nodes // 2, "steps": 10})
    both = [settings_of(cell.model_copy(update={"training": training}))["epochs"] for training in (share, number)]
    assert both[0] == 5
    assert both[1] == pytest.approx(5, rel=1 / nodes)
