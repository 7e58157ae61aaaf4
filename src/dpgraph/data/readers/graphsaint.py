"""GraphSAINT's release (Zeng et al., 2020): adj_full.npz, feats.npy, class_map.json, role.json.

The maps' keys are node ids written as strings, and not in numeric order: labels are placed by key.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dpgraph.data.arrays import load_npy, sparse
from dpgraph.data.raw_graph import RawGraph, split_array
from dpgraph.data.readers import reading


def read(raw_dir: Path, directed: bool = False, with_features: bool = True) -> RawGraph:
    """Return the graph of GraphSAINT's files; `with_features=False` leaves feats.npy out."""
    with reading(raw_dir / "adj_full.npz") as path, np.load(path, allow_pickle=False) as arrays:
        edges = sparse(arrays).tocoo()
        edges.eliminate_zeros()  # a stored zero is no edge
    features = None
    if with_features:
        with reading(raw_dir / "feats.npy") as path:
            features = load_npy(path).astype(np.float32)
    labels = np.full(edges.shape[0], -1, dtype=np.int64)
    with reading(raw_dir / "class_map.json") as path:
        classes = json.loads(path.read_text(encoding="utf-8"))
        ids = _integers([int(key) for key in classes])
        if len(ids) and (ids.min() < 0 or ids.max() >= len(labels)):
            raise ValueError(f"ids {ids.min()}..{ids.max()} instead of 0..{len(labels) - 1}")
        labels[ids] = _integers(list(classes.values()))
    with reading(raw_dir / "role.json") as path:
        roles = json.loads(path.read_text(encoding="utf-8"))
        split = split_array(len(labels), *(_integers(roles[key]) for key in ("tr", "va", "te")))
    return RawGraph(edges.row, edges.col, features, labels, split, directed)


def _integers(values: list[int]) -> np.ndarray:
    """Return (n,) int64; numbers with a fraction, texts and lists are no ids and no classes."""
    integers = np.asarray(values) if values else np.empty(0, dtype=np.int64)
    if integers.ndim != 1 or integers.dtype.kind not in "iu":
        raise ValueError("expected a list of integers")
    return integers.astype(np.int64)
