"""From a raw graph to the stored relation of a task: its edges are the tuples, its nodes the entities."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpgraph.data.adjacency import owners
from dpgraph.data.features import dense, transform
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.records import DATA_DEPENDENT, NO_SPLIT
from dpgraph.data.registry import DatasetEntry
from dpgraph.data.splits import random_percentages
from dpgraph.errors import UserError, invalid
from dpgraph.experiments.cell import Task
from dpgraph.problems.relations.value import Relations, save_relations, with_split


def store(task: Task, known: DatasetEntry, raw: RawGraph, folder: Path) -> None:
    """Stores the relation of `task`: every edge once, in the parts of random-A-B-C.

    Raises UserError for another split, and for statistics that differ from the registry's.
    """
    if not isinstance(raw, RawGraph) or raw.features is None:
        raise UserError(f"{task.dataset}: reader {known.reader}: expected one that reads a graph with features")
    percent = random_percentages(task.split)
    if percent is None:
        raise invalid("split", task.split, "random-A-B-C: percent of the tuples")
    ptr, idx = raw.symmetric
    head = owners(ptr)
    once = head < idx
    tuples = np.stack([head[once], idx[once]], axis=1).astype(np.int32)
    seen = {"nodes": raw.num_nodes, "entries": 2 * len(tuples), "features": raw.features.shape[1]}
    for statistic, value in seen.items():
        wanted = getattr(known.expected, statistic)
        if wanted is not None and wanted != value:
            raise UserError(f"{task.dataset}: {statistic}={value}: expected {wanted} as in the registry")
    relations = Relations(
        name=task.dataset,
        features=dense(transform(raw.features, task.features)),
        tuples=tuples,
        split=np.full(len(tuples), NO_SPLIT, dtype=np.uint8),
        meta={
            "task": task.model_dump(mode="json"),
            "title": known.title,
            "licence": known.licence.name,
            "upstream": list(known.upstream),
            **raw.meta,
            DATA_DEPENDENT: list(raw.data_dependent),
        },
    )
    save_relations(with_split(relations, percent, task.split, 0), folder)
