"""Which entities a relation joins."""

from dataclasses import replace

from dpgraph.config.cell import Task
from dpgraph.data.registry import DatasetEntry, entry
from dpgraph.problems.base import Problem, Size, size_by_registry

TOKENS = {"tridnr": 15.0, "cane": 110.0}  # of a mean text by the layout of its file: of titles, of abstracts


def size(task: Task, known: DatasetEntry) -> Size:
    """Return the sizes of a task's data: tuples are half the directed edges, and the split names the trained
    percentage.

    Of two graphs about half is trained on; the registry's `split` has the exact numbers.
    """
    graph = size_by_registry(task, known)
    percent = int(task.split.split("-")[1]) if task.split.startswith("random-") else 50
    return replace(graph, train_nodes=max(graph.entries // 2 * percent // 100, 1), tokens=_tokens(known))


def _tokens(known: DatasetEntry) -> tuple[float, float] | None:
    """Return the tokens of a mean text of the training graph (the first of two), and of all graphs."""
    layouts = known.options.get("layouts")
    found = [TOKENS.get(str(name)) for name in layouts] if isinstance(layouts, list | tuple) else []
    if not found or None in found:
        return None
    parts = known.parts if len(known.parts) == len(found) else ()
    nodes = [entry(part).expected.nodes or 1 for part in parts] or [1] * len(found)
    mean = sum(tokens * count for tokens, count in zip(found, nodes, strict=True) if tokens is not None) / sum(nodes)
    return float(found[0] or 0), mean


PROBLEM = Problem(
    "relations",
    "Which entities a relation joins, from the entities' own features or texts.",
    store="dpgraph.problems.relations.prepare:store",
    work="dpgraph.problems.relations.work:RelationPrediction",
    features="raw|l1|l2|project-[1-9][0-9]*",
    size=size,
)
