"""Which entities a relation joins."""

from __future__ import annotations

from dataclasses import replace

from dpgraph.data.registry import DatasetEntry
from dpgraph.experiments.cell import Task
from dpgraph.problems.base import Problem, Size, size_by_registry


def size(task: Task, known: DatasetEntry) -> Size:
    """Tuples are half the directed edges, of which the split names the percentage that is trained on.

    Of two graphs about half; the registry's `split` has the exact numbers.
    """
    graph = size_by_registry(task, known)
    percent = int(task.split.split("-")[1]) if task.split.startswith("random-") else 50
    return replace(graph, train_nodes=max(graph.entries // 2 * percent // 100, 1))


PROBLEM = Problem(
    "relations",
    "Which entities a relation joins, from the entities' own features or texts.",
    store="dpgraph.problems.relations.prepare:store",
    work="dpgraph.problems.relations.work:RelationPrediction",
    features="raw|l1|l2|project-[1-9][0-9]*",
    size=size,
)
