"""GraphSAINT's release (Zeng et al., 2020): adj_full.npz, feats.npy, class_map.json, role.json.

The maps' keys are node ids written as strings, and not in numeric order: labels are placed by key.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgraph.data.raw_graph import RawGraph, split_array
from dpgraph.data.readers import existing, malformed


def read(raw_dir: Path, directed: bool = False, with_features: bool = True) -> RawGraph:
    """`with_features=False` reads everything but feats.npy."""
    path = existing(raw_dir / "adj_full.npz")
    try:
        edges = sp.load_npz(path).tocoo()
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise malformed(path, error) from None
    features = _features(existing(raw_dir / "feats.npy")) if with_features else None
    classes, roles = _json(raw_dir / "class_map.json"), _json(raw_dir / "role.json")
    labels = np.full(edges.shape[0], -1, dtype=np.int64)
    try:
        ids = np.fromiter((int(key) for key in classes), dtype=np.int64, count=len(classes))
        labels[ids] = np.fromiter(classes.values(), dtype=np.int64, count=len(classes))
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise malformed(raw_dir / "class_map.json", error) from None
    try:
        parts = [np.asarray(roles[key], dtype=np.int64) for key in ("tr", "va", "te")]
        split = split_array(len(labels), *parts)
    except (ValueError, IndexError, TypeError, KeyError) as error:
        raise malformed(raw_dir / "role.json", error) from None
    return RawGraph(edges.row, edges.col, features, labels, split, directed)


def _features(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False).astype(np.float32)
    except (ValueError, OSError, EOFError) as error:
        raise malformed(path, error) from None


def _json(path: Path) -> Any:
    try:
        return json.loads(existing(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise malformed(path, error) from None
