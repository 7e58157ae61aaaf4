"""The step from a raw graph to the stored relation of a task: edges become tuples, nodes entities."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError, invalid
from dpgraph.data.adjacency import owners
from dpgraph.data.features import dense, transform
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.records import DATA_DEPENDENT, TEST, TRAIN
from dpgraph.data.registry import DatasetEntry
from dpgraph.data.splits import random_percentages
from dpgraph.problems.base import check_expected, described
from dpgraph.problems.relations.value import Relations, save_relations, with_split

log = logging.getLogger("dpgraph")


def store(task: Task, known: DatasetEntry, raw: RawGraph, folder: Path) -> None:
    """Store the relation of `task`, with every edge once, and without ids that have no record.

    Were an id null in the data at hand, neighbours in which another one is null would have two, which are refused
    (docs/privacy/tuples.md, Theorem 28): nobody whose record is there would be protected.

    Tuples are split by random-A-B-C; of two graphs with split public, the first one's edges train and the other's test.
    Raises UserError for another split, and for statistics that differ from the registry's.
    """
    if not isinstance(raw, RawGraph) or raw.features is None:
        raise UserError(f"{task.dataset}: reader {known.reader}: expected one that reads a graph with features")
    percent, domain = random_percentages(task.split), domains(raw)
    if (percent is None) != bool(domain.any()) or (percent is None and task.split != "public"):
        expected = "public: one graph trains, one tests" if domain.any() else "random-A-B-C: percent of the tuples"
        raise invalid("split", task.split, expected)
    ptr, idx = raw.symmetric
    head = owners(ptr)
    once = head < idx
    tuples = np.stack([head[once], idx[once]], axis=1).astype(np.int32)
    seen = {"nodes": raw.num_nodes, "entries": 2 * len(tuples), "features": raw.features.shape[1]}
    check_expected(task.dataset, known, seen)
    texts = [text.encode() for text in (raw.texts or {"text": [""] * raw.num_nodes})["text"]]
    relations = Relations(
        name=task.dataset,
        features=dense(transform(raw.features, task.features)),
        tuples=tuples,
        split=domain[tuples[:, 0]],
        domain=domain,
        letters=np.frombuffer(b"".join(texts), dtype=np.uint8),
        text_ends=np.cumsum([len(text) for text in texts], dtype=np.int64),
        meta={**described(task, known), **raw.meta, DATA_DEPENDENT: list(raw.data_dependent)},
    )
    relations = with_records(relations)
    drawn = relations if percent is None else with_split(relations, percent, task.split, 0)
    save_relations(drawn, folder)


def with_records(relations: Relations) -> Relations:
    """Return the relation of the ids that have a text, or features where there are no texts; ids are public."""
    kept = relations.recorded
    if kept.all():
        return relations
    log.warning("%s: %d ids without a record are left out", relations.name, int((~kept).sum()))
    place, inside = np.cumsum(kept) - 1, kept[relations.tuples].all(axis=1)
    sizes = np.diff(relations.text_ends, prepend=0)
    return replace(
        relations, features=relations.features[kept], tuples=place[relations.tuples[inside]].astype(np.int32),
        split=relations.split[inside], domain=relations.domain[kept], text_ends=np.cumsum(sizes[kept], dtype=np.int64),
    )  # fmt: skip


def domains(raw: RawGraph) -> np.ndarray:
    """Return (N,) TRAIN; of two graphs, which no edge joins, TRAIN and then TEST."""
    of = raw.split
    if of is None or np.any(of[raw.source] != of[raw.target]) or set(np.unique(of)) != {TRAIN, TEST}:
        return np.full(raw.num_nodes, TRAIN, dtype=np.uint8)
    return of
