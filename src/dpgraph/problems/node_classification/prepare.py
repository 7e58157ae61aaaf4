"""The steps from a raw graph to the stored graph of a task: verify, split, remove edges, transform features, save."""

from pathlib import Path

import numpy as np

from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError
from dpgraph.core.files import atomic_path
from dpgraph.data.adjacency import apply_setting
from dpgraph.data.features import dense, transform
from dpgraph.data.graph import Graph
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.records import DATA_DEPENDENT, SPLIT_NAMES
from dpgraph.data.registry import DatasetEntry
from dpgraph.data.splits import is_drawn, make_split
from dpgraph.data.store import save_graph
from dpgraph.problems.base import check_expected, class_count, described

TEXTS = "texts.parquet"


def store(task: Task, known: DatasetEntry, raw: RawGraph, folder: Path) -> None:
    """Store the graph of `task`; texts go to texts.parquet in the same folder, a row per node.

    Raises UserError for statistics that differ from the registry's.
    """
    if not isinstance(raw, RawGraph):
        raise UserError(f"{task.dataset}: reader {known.reader}: expected one that reads a graph")
    verify(task.dataset, known, raw)
    whole = whole_graph(task, known, raw)
    graph = apply_setting(whole, task.setting)
    if raw.texts is not None:
        import pandas as pd

        with atomic_path(folder / TEXTS) as path:
            pd.DataFrame(raw.texts).to_parquet(path)
    # every seed has its own split, and with it its own edges
    seeded = graph is not whole and is_drawn(task.split)
    save_graph(graph, folder, (whole.out_ptr, whole.out_idx) if seeded else None)


def build(task: Task, known: DatasetEntry, raw: RawGraph) -> Graph:
    """Return the graph of `task` in memory."""
    return apply_setting(whole_graph(task, known, raw), task.setting)


def whole_graph(task: Task, known: DatasetEntry, raw: RawGraph) -> Graph:
    """Return the graph of `task` with all its edges, whatever the setting."""
    if raw.features is None:
        raise UserError(f"{task.dataset}: no features were read: expected a matrix with a row per node")
    split, declared = make_split(raw, task.dataset, task.split)
    num_classes, counted = class_count(known, raw.labels)
    ptr, idx = raw.symmetric
    meta: dict[str, object] = {
        **described(task, known),
        "directed_in_source": raw.directed,
        "undirected": True,
        "variant_of": known.variant_of,
        **raw.meta,
        **declared,
        DATA_DEPENDENT: [*raw.data_dependent, *declared.get(DATA_DEPENDENT, ()), *counted],
    }
    return Graph(
        name=task.dataset,
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=ptr,
        in_idx=idx,
        features=dense(transform(raw.features, task.features)),
        labels=raw.labels,
        split=split,
        num_classes=num_classes,
        meta=meta,
    )


def verify(name: str, known: DatasetEntry, raw: RawGraph) -> None:
    """Raise UserError that names the first statistic in which the files differ from the registry, with both values."""
    entries = len(raw.symmetric[1])
    mean_degree = round(entries / max(raw.num_nodes, 1), 1)
    seen: dict[str, object] = {"nodes": raw.num_nodes, "entries": entries, "mean_degree": mean_degree}
    if raw.features is not None:
        seen["features"] = raw.features.shape[1]
        if known.expected.signed is not None:
            seen["signed"] = bool(raw.features.min() < 0)
    seen["classes"] = len(np.unique(raw.labels[raw.labels >= 0]))
    if raw.split is not None:
        seen["split"] = tuple(int((raw.split == value).sum()) for value in SPLIT_NAMES.values())
    check_expected(name, known, seen)
