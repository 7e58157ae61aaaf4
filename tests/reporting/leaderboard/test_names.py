"""Names of data sets on the leaderboard: one label on unlike splits is no ranking."""

from __future__ import annotations

from types import SimpleNamespace

from dpgraph.experiments.cell import Task
from dpgraph.reporting.leaderboard import standings


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
