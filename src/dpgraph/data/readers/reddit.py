"""GraphSAGE's Reddit as DGL packs it (Hamilton et al., 2017): reddit_data.npz, reddit_graph.npz."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.arrays import saved_matrix
from dpgraph.data.raw_graph import RawGraph, frequent_classes
from dpgraph.data.readers import reading
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN, VALIDATION

NODE_TYPES = {1: TRAIN, 2: VALIDATION, 3: TEST}


def read(raw_dir: Path, one_in: int = 1, least_in_class: int | None = None) -> RawGraph:
    """Return the graph; `one_in=k` keeps a random k-th of each class's nodes, rounded down, and their edges;
    `least_in_class` then the classes with as many nodes (GAP's task)."""
    if one_in < 1:
        raise invalid("one_in", one_in, "an integer >= 1")
    with reading(raw_dir / "reddit_data.npz") as path, np.load(path, allow_pickle=False) as arrays:
        features, labels, types = arrays["feature"].astype(np.float32), arrays["label"], arrays["node_types"]
        if types.shape != labels.shape:
            raise ValueError(f"{len(types)} node types for {len(labels)} labels")
    with reading(raw_dir / "reddit_graph.npz") as path, np.load(path, allow_pickle=False) as arrays:
        edges = saved_matrix(arrays)
        edges.eliminate_zeros()  # a stored zero is no edge
    split = np.full(len(labels), NO_SPLIT, dtype=np.uint8)
    for code, value in NODE_TYPES.items():
        split[types == code] = value
    raw = RawGraph(edges.row, edges.col, features, labels, split, directed=False)
    if one_in != 1:
        kept = raw.induced(_one_in(raw.labels, one_in))
        raw = replace(kept, data_dependent=("the nodes: a share of each class, by the labels of all posts",))
    return raw if least_in_class is None else frequent_classes(raw, least_in_class)


def _one_in(labels: np.ndarray, one_in: int) -> np.ndarray:
    """Return the ids of the nodes kept, ascending."""
    order = numpy_generator("reddit", "sample", one_in).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(by_class[rank < np.repeat(counts // one_in, counts)])
