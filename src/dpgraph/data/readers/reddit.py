"""GraphSAGE's Reddit as DGL packs it (Hamilton et al., 2017): reddit_data.npz, reddit_graph.npz."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dpgraph.data.graph import NO_SPLIT, TEST, TRAIN, VALIDATION
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import existing, malformed
from dpgraph.errors import invalid
from dpgraph.randomness import numpy_generator

NODE_TYPES = {1: TRAIN, 2: VALIDATION, 3: TEST}


def read(raw_dir: Path, one_in: int = 1) -> RawGraph:
    """`one_in=k` keeps a random k-th of the nodes of each class, rounded down, and the edges among them."""
    if one_in < 1:
        raise invalid("one_in", one_in, "an integer >= 1")
    data_path, graph_path = existing(raw_dir / "reddit_data.npz"), existing(raw_dir / "reddit_graph.npz")
    try:
        with np.load(data_path, allow_pickle=False) as arrays:
            features = arrays["feature"].astype(np.float32)
            labels = arrays["label"].astype(np.int64)
            types = arrays["node_types"]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise malformed(data_path, error) from None
    try:
        edges = sp.load_npz(graph_path).tocoo()
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise malformed(graph_path, error) from None
    split = np.full(len(labels), NO_SPLIT, dtype=np.uint8)
    for code, value in NODE_TYPES.items():
        split[types == code] = value
    raw = RawGraph(edges.row, edges.col, features, labels, split, directed=False)
    return raw if one_in == 1 else raw.induced(_one_in(labels, one_in))


def _one_in(labels: np.ndarray, one_in: int) -> np.ndarray:
    """Ids of the nodes kept, ascending."""
    order = numpy_generator("reddit", "sample", one_in).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(by_class[rank < np.repeat(counts // one_in, counts)])
