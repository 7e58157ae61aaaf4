"""Names on the leaderboard: of data sets on unlike splits, of one mechanism in several files, of rows below a floor."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from dpgraph.config.cell import Task
from dpgraph.families.registry import floors, spec
from dpgraph.privacy.relation import Relation
from dpgraph.reporting.leaderboard import standings
from dpgraph.reporting.ranking import FREE, below_floor, label_of, with_floors
from tests.plans import plan_of


def test_one_label_on_unlike_splits_is_told_apart(monkeypatch):
    tasks = {
        "a": Task(dataset="pubmed", setting="transductive", split="random-70-10-20"),
        "b": Task(dataset="pubmed", setting="transductive", split="train-rest"),
        "c": Task(dataset="cora", setting="transductive", split="train-rest"),
    }
    labels = {"a": "PubMed", "b": "PubMed", "c": "Cora"}
    shown = [(SimpleNamespace(task_id=task, suite_task=SimpleNamespace(label=labels[task])), "m") for task in tasks]
    monkeypatch.setattr(standings, "_shown", lambda plan: shown)
    names = standings.data_names(SimpleNamespace(task=tasks.__getitem__))
    assert names == {"a": "PubMed (random 70/10/20)", "b": "PubMed (train rest)", "c": "Cora"}


def test_one_mechanism_has_one_name_in_all_files():
    """Residual clipping with ratio 0 has ids of several hops; what is trained by a public rule is another mechanism."""
    names: dict[tuple, set[str]] = {}
    ids = set()
    for suite in ("votes", "ablations", "arxiv-text"):
        for entry in plan_of(suite).entries:
            privacy = entry.cell.privacy
            if getattr(privacy, "neighbour_clip_ratio", None) == 0:
                ids.add(f"{entry.paper}/{entry.method_id}")
                assert label_of(entry.cell, "a row's own label").endswith("(MLP-trained)")
            settings = json.dumps(entry.method.set.get("privacy", {}), sort_keys=True)
            optimizer = entry.method.set.get("training", {}).get("optimizer")
            key = (entry.cell.method, entry.cell.network, settings, optimizer)
            names.setdefault(key, set()).add(label_of(entry.cell, entry.method.label))
    assert max(len(name) for found in names.values() for name in found) <= 24
    own = {name for key, found in names.items() for name in found if '"neighbour_clip_ratio": 0' in key[2]}
    assert {"daigavane/dp-own-gcn-1", "daigavane/dp-own-gcn-2"} <= ids
    assert "votes/raw-graph" not in ids
    assert own == {f"DP-GCN-{hops} (MLP-trained)" for hops in (1, 2)}


@pytest.mark.parametrize(
    ("relation", "mean", "split", "below"),
    [
        ("edge", 84.7, "public", True),
        ("edge", 87.6, "public", False),
        ("node-null", 84.7, "public", False),  # an MLP reads records
        ("edge", 84.7, "random-70-10-20", False),  # no MLP on this split
        ("edge / node-null", 84.7, "public", True),
    ],
)
def test_a_row_at_edge_level_below_an_mlp_says_so(relation, mean, split, below):
    about = {"dataset": "pubmed", "setting": "transductive", "metric": "test accuracy (%)"}
    names = ("split", "kind", "method", "relation", "mean", "label")
    table = [
        (split, "proved", "dp-gap", relation, mean, "GAP"),
        ("public", "no privacy", "mlp", "", 87.5, "MLP"),
        ("public", "no privacy", "gnn", "", 89.0, "GCN"),
    ]
    rows = pd.DataFrame([about | dict(zip(names, row)) for row in table])
    values = [pd.Series([mean]) for mean in rows["mean"]]
    found = with_floors(rows, values)["below"].tolist()
    assert found == ["an MLP that reads no edge" * below, "", ""]
    assert with_floors(with_floors(rows, values), values)["below"].tolist() == found


@pytest.mark.parametrize(("own", "below"), [([83.0, 83.5], False), ([82.0, 82.5], True)])
def test_a_floor_is_compared_on_common_seeds(own, below):
    """The first five splits are easy: the mean of an MLP over them is above that of a better row over all splits."""
    about = {"dataset": "cora-ml", "setting": "transductive", "split": "random", "metric": "m", "relation": ""}
    floor, ours = pd.Series([84.5, 82.8], index=[0, 1]), pd.Series(own, index=[1, 2])
    table = [
        {"kind": "proved", "method": "dp-edge-votes", "relation": "edge", "mean": ours.mean()},
        {"kind": "no privacy", "method": "mlp", "mean": floor.mean()},
    ]
    rows = pd.DataFrame([about | row for row in table])
    assert ours.mean() < floor.mean()
    assert below_floor(rows, [ours, floor]).tolist() == ["an MLP that reads no edge" * below, ""]
    assert below_floor(rows, [ours.loc[[2]], floor]).tolist() == ["", ""]  # nothing to compare


@pytest.mark.parametrize(("spread", "below"), [(0.1, False), (2.0, True)])
def test_a_floor_that_a_row_is_not_significantly_above_is_named(spread, below):
    about = {"dataset": "cora-ml", "setting": "transductive", "split": "random", "metric": "m", "relation": ""}
    floor = pd.Series([80.0, 81.0, 82.0])
    ours = floor + 1.0 + spread * pd.Series([-1.0, 0.0, 1.0])
    table = [
        {"kind": "proved", "method": "dp-edge-votes", "relation": "edge", "mean": ours.mean()},
        {"kind": "no privacy", "method": "mlp", "mean": floor.mean()},
    ]
    found = below_floor(pd.DataFrame([about | row for row in table]), [ours, floor])
    assert found.tolist() == ["an MLP that reads no edge" * below, ""]


@pytest.mark.parametrize("relation", sorted(set(Relation) - {Relation.NONE}))
def test_every_ranking_has_the_floor_of_its_relation(relation):
    """What depends on no record is the floor of all relations, and beside it what touches nothing protected."""
    about = {"dataset": "d", "setting": "s", "split": "public", "metric": "MRR (%)", "relation": ""}
    table = [
        {"kind": FREE, "method": "random", "mean": 10.0, "label": "Random class"},
        {"kind": "no privacy", "method": "cosine", "mean": 30.0, "label": "Cosine"},
        {"kind": "no privacy", "method": "mlp", "mean": 50.0, "label": "MLP"},
        *(
            {"kind": "proved", "method": "dp", "mean": mean, "relation": relation, "label": f"DP {mean}"}
            for mean in (5, 20, 40, 60)
        ),
        {"kind": "claimed only", "method": "dp", "mean": 5.0, "relation": relation, "label": "DP, claimed"},
    ]
    rows = pd.DataFrame([about | row for row in table])
    found = with_floors(rows, [pd.Series([float(mean)]) for mean in rows["mean"]])
    assert FREE not in set(found["kind"])
    words = {"edge": ["an MLP that reads no edge"] * 3, "entity": ["untrained vectors"] * 2}.get(
        relation, ["a random class"]
    )
    assert found["label"].tolist() == ["Cosine", "MLP", *(f"DP {mean}" for mean in (5, 20, 40, 60)), "DP, claimed"]
    assert found["below"].tolist() == ["", "", *words, *[""] * (5 - len(words))]


def test_a_method_that_touches_nothing_protected_declares_it():
    """Methods of relations train on nothing; a constant class reads no record; an MLP reads no edge."""
    assert (
        set(floors(Relation.GRAPH))
        == set(floors(Relation.NODE_NULL))
        == set(floors(Relation.RECORD_REMOVE))
        == {"random"}
    )
    assert set(floors(Relation.EDGE)) == {"random", "majority", "mlp"}
    assert set(floors(Relation.ENTITY)) == {"random", "cosine", "base-encoder"}
    for relation in Relation:
        for name in floors(relation):
            assert not spec(name).private
