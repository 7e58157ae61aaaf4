"""Graphs of other libraries: PyTorch Geometric, OGB, NetworkX, SciPy. None of them is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.errors import UserError, invalid
from dpgraph.fitting.own_graph import OwnGraph
from dpgraph.fitting.tables import from_arrays, read_npz


def own_graph(data: Any, labels: Any = None, features: Any = None) -> OwnGraph:
    """`labels` and `features` go with SciPy matrices and (2, E) arrays only."""
    if isinstance(data, OwnGraph):
        return data
    if isinstance(data, str | Path):
        return read_npz(Path(data))
    if hasattr(data, "nodes") and hasattr(data, "is_directed"):
        return _networkx(data)
    if hasattr(data, "edge_index"):
        return _geometric(data)
    if hasattr(data, "tocoo") or isinstance(data, np.ndarray):
        if labels is None:
            raise invalid("labels", None, "one for each node, -1 for none")
        if hasattr(data, "tocoo"):
            entries = data.tocoo()
            if entries.shape[0] != entries.shape[1]:
                raise invalid("graph of shape", entries.shape, "a square matrix")
            data = np.stack([entries.row, entries.col])
        return from_arrays(data, labels, features)
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], dict):
        return from_arrays(data[0]["edge_index"], data[1], data[0].get("node_feat"))  # of OGB
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and len(data) == 1:
        return own_graph(data[0])  # a data set of one graph
    raise invalid("data", type(data).__name__, "a graph of PyTorch Geometric, NetworkX or SciPy, arrays or a .npz file")


def _array(value: Any) -> Any:
    if value is None:
        return None
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _geometric(data: Any) -> OwnGraph:
    y = _array(getattr(data, "y", None))
    if y is None:
        raise UserError("data.y: expected a label for each node, -1 for none")
    split = None
    masks = [_array(getattr(data, f"{name}_mask", None)) for name in ("train", "val", "test")]
    if all(mask is not None and mask.shape == (len(y),) for mask in masks):
        # a node without a role has a label that nobody trains on: it is held out
        split = np.select(masks, ["train", "val", "test"], default="test")
    return from_arrays(_array(data.edge_index), y, _array(getattr(data, "x", None)), split, where="data")


def _networkx(graph: Any) -> OwnGraph:
    """Attributes of nodes: `label`, and `x`, numbers; a node without a label has none."""
    nodes = list(graph.nodes(data=True))
    names = {name: place for place, (name, _) in enumerate(nodes)}
    edges = np.array([(names[u], names[v]) for u, v, *_ in graph.edges()], dtype=np.int64).reshape(-1, 2)
    labels = np.array([str(values.get("label", "")) for _, values in nodes], dtype=object)
    rows = [values.get("x") for _, values in nodes]
    features = None
    if any(row is not None for row in rows):
        lengths = {len(np.atleast_1d(row)) if row is not None else -1 for row in rows}
        if len(lengths) != 1:
            raise invalid("lengths of x", sorted(lengths), "as many numbers for each node")
        features = np.array([np.atleast_1d(row) for row in rows], dtype=np.float32)
    return from_arrays(
        edges.T, labels, features, ids=[str(name) for name, _ in nodes], directed=graph.is_directed(), where="graph"
    )
