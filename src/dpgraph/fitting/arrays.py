"""Graphs as arrays: edge_index, labels and features, in memory or in .npz files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.data.readers import DAMAGE
from dpgraph.errors import UserError, invalid
from dpgraph.fitting.labels import label_texts, labels_of
from dpgraph.fitting.own_graph import OwnGraph, split_of

NPZ = ("edge_index", "x", "y", "split", "directed")


def arrays_of(path: Path, known: Sequence[str]) -> dict[str, np.ndarray]:
    """All arrays of a .npz file, of these names alone. Raises UserError for anything else, such as a pickle."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected arrays {', '.join(known)}")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (*DAMAGE, SyntaxError) as error:
        raise UserError(f"{path}: expected a .npz file without pickles: {type(error).__name__}") from None
    for name in arrays:
        if name not in known:
            raise invalid(f"{path}: array", name, f"one of {', '.join(known)}")
    return arrays


def read_npz(path: Path, classes: Sequence[str] | None = None) -> OwnGraph:
    """Arrays edge_index (2, E), y (N,) with -1 for none, x (N, F), split (N,) of train, val, test; no pickles."""
    path = Path(path)
    arrays = arrays_of(path, NPZ)
    for name in ("edge_index", "y"):
        if name not in arrays:
            raise UserError(f"{path}: no array {name}: expected edge_index and y")
    directed = arrays.get("directed")
    if directed is not None and directed.shape != ():
        raise UserError(f"{path}: directed of shape {directed.shape}: expected one truth value")
    found = from_arrays(
        arrays["edge_index"], arrays["y"], arrays.get("x"), arrays.get("split"), classes=classes,
        directed=bool(directed) if directed is not None else False, where=str(path),
    )  # fmt: skip
    return replace(found, files=(path,))


def from_arrays(
    edge_index: Any,
    labels: Any,
    features: Any = None,
    split: Any = None,
    *,
    classes: Sequence[str] | None = None,
    directed: bool = False,
    ids: Sequence[str] | None = None,
    where: str = "graph",
) -> OwnGraph:
    """From arrays; labels are whole numbers (-1 or NaN: none) or texts ("", None or NaN: none)."""
    edges, y = _array(edge_index, f"{where}: edge_index"), _array(labels, f"{where}: y")
    if y.ndim != 1:
        y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 or y.dtype.kind not in "biufUO":
        raise UserError(f"{where}: y of shape {y.shape}, type {y.dtype}: expected a label for each node")
    if edges.ndim != 2 or edges.shape[0] != 2 or (edges.size and edges.dtype.kind not in "iu"):
        raise UserError(f"{where}: edge_index of shape {edges.shape}, type {edges.dtype}: expected integers (2, E)")
    texts = label_texts(y, where)
    places, found = labels_of(texts, classes, where)
    if features is not None:
        matrix = features.toarray() if hasattr(features, "toarray") else _array(features, f"{where}: x")
        if matrix.dtype.kind not in "biuf":
            raise UserError(f"{where}: x of type {matrix.dtype}: expected numbers")
        with np.errstate(over="ignore"):
            features = matrix.astype(np.float32)
    roles = None if split is None else roles_of(split, len(y), where)
    return OwnGraph(
        tuple(map(str, ids)) if ids is not None else tuple(map(str, range(len(y)))),
        edges[0].astype(np.int64), edges[1].astype(np.int64), features, places, found, roles, directed,
        classes_given=classes is not None, where=where,
    )  # fmt: skip


def roles_of(split: Any, size: int, where: str) -> np.ndarray:
    parts = _array(split, f"{where}: split").reshape(-1)
    if len(parts) != size:
        raise UserError(f"{where}: split of {len(parts)}: expected a role for each of {size}")
    return split_of([str(one) for one in parts.tolist()], where)


def _array(value: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):  # rows of several lengths
        raise UserError(f"{what}: expected an array") from None
