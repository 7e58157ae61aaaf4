"""From raw files to the stored graph of a task: read, verify, split, cut edges, transform features, save."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpgraph.data.features import dense, transform
from dpgraph.data.graph import DATA_DEPENDENT, SPLIT_NAMES, Graph
from dpgraph.data.manifest import read_manifest, verify_files
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import read
from dpgraph.data.registry import DatasetEntry, entry
from dpgraph.data.settings import apply_setting
from dpgraph.data.splits import make_split
from dpgraph.data.store import save_graph, save_unavailable
from dpgraph.errors import DataUnavailable, UserError
from dpgraph.experiments.cell import Task
from dpgraph.files import atomic_path, locked, sweep

TEXTS = "texts.parquet"


def preprocess(task: Task, raw_dir: Path, out_dir: Path) -> None:
    """Stores the graph of `task` in `out_dir` (data/graphs/<task.folder>).

    `raw_dir` is the data set's folder, as `fetch` filled it. Where its manifest says unavailable, or a reader finds
    that a model cannot be used, only a header with that reason is stored. Texts, where a data set has them, go to
    texts.parquet beside the graph, a row per node.
    Raises UserError for files that are no longer what was downloaded, for damaged ones, and for statistics that differ
    from the registry's.
    """
    raw_dir, out_dir = Path(raw_dir), Path(out_dir)
    manifest = read_manifest(raw_dir)
    if manifest.dataset != task.dataset:
        raise UserError(f"{raw_dir}: files of data set {manifest.dataset}: expected {task.dataset}")
    if manifest.status != "ok":
        save_unavailable(task.dataset, manifest.reason, out_dir)
        return
    verify_files(manifest, raw_dir)
    known = entry(task.dataset)
    try:
        raw = read(known, raw_dir)
    except DataUnavailable as error:
        save_unavailable(task.dataset, str(error), out_dir)
        return
    verify(task.dataset, known, raw)
    graph = build(task, known, raw)
    with locked(out_dir):
        sweep(out_dir)
        if raw.texts is not None:
            import pandas as pd

            with atomic_path(out_dir / TEXTS) as path:
                pd.DataFrame(raw.texts).to_parquet(path)
        save_graph(graph, out_dir)


def build(task: Task, known: DatasetEntry, raw: RawGraph) -> Graph:
    """The graph of `task` in memory."""
    if raw.features is None:
        raise UserError(f"{task.dataset}: no features were read: expected a matrix with a row per node")
    split, declared = make_split(raw, task.dataset, task.split)
    ptr, idx = raw.symmetric
    meta: dict[str, object] = {
        "task": task.model_dump(mode="json"),
        "title": known.title,
        "licence": known.licence.name,
        "directed_in_source": raw.directed,
        "undirected": True,
        "variant_of": known.variant_of,
        "upstream": list(known.upstream),
        **raw.meta,
        **declared,
        DATA_DEPENDENT: [*raw.data_dependent, *declared.get(DATA_DEPENDENT, ())],
    }
    graph = Graph(
        name=task.dataset,
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=ptr,
        in_idx=idx,
        features=dense(transform(raw.features, task.features)),
        labels=raw.labels,
        split=split,
        num_classes=known.expected.classes or int(raw.labels.max(initial=-1)) + 1,
        meta=meta,
    )
    return apply_setting(graph, task.setting)


def verify(name: str, known: DatasetEntry, raw: RawGraph) -> None:
    """Raises UserError that names the first statistic in which the files differ from the registry, and both numbers."""
    for statistic, expected, found in _comparisons(known, raw):
        if expected is not None and expected != found:
            raise UserError(f"{name}: {statistic}={found}: expected {expected} as in the registry (damaged files?)")


def _comparisons(known: DatasetEntry, raw: RawGraph) -> Iterator[tuple[str, object, object]]:
    expected = known.expected
    yield "nodes", expected.nodes, raw.num_nodes
    entries = len(raw.symmetric[1])
    yield "entries", expected.entries, entries
    yield "mean_degree", expected.mean_degree, round(entries / max(raw.num_nodes, 1), 1)
    if raw.features is not None:
        yield "features", expected.features, raw.features.shape[1]
    yield "classes", expected.classes, len(np.unique(raw.labels[raw.labels >= 0]))
    if raw.split is not None:
        yield "split", expected.split, tuple(int((raw.split == value).sum()) for value in SPLIT_NAMES.values())
