"""Graphs of other libraries: PyTorch Geometric, OGB, NetworkX, SciPy. None of them is imported here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.errors import UserError, invalid
from dpgraph.fitting.arrays import from_arrays, read_npz, roles_of
from dpgraph.fitting.own_graph import OwnGraph, in_order


def own_graph(
    data: Any,
    labels: Any = None,
    features: Any = None,
    *,
    classes: Sequence[str] | None = None,
    split: Any = None,
    directed: bool | None = None,
) -> OwnGraph:
    """`labels` and `features` go with SciPy matrices and (2, E) arrays only.

    `classes`: the public list; labels that are numbers are named "0", "1" and so on. `split`: train, val or test of
    each node, in the order of the object, in the place of what it has. `directed` None: undirected, but for a directed
    graph of NetworkX and a .npz file that says so. Raises UserError for what is no graph, and for arguments that do not
    go with it.
    """
    if isinstance(data, OwnGraph):
        if (labels, features, classes, split, directed) != (None,) * 5:
            raise UserError("data is an OwnGraph: expected no labels, features, classes, split or directed beside it")
        return data
    if isinstance(data, str | Path):
        found = read_npz(Path(data), classes)
        return found if directed is None and split is None else _changed(found, split, directed)
    if str(getattr(data, "layout", "")) == "torch.strided":  # a tensor of edges, as `edge_index`
        data = _array(data)
    is_array = hasattr(data, "tocoo") or isinstance(data, np.ndarray)
    for name, value in (("labels", labels), ("features", features)):
        if value is not None and not is_array:
            raise UserError(f"{name}: expected them in the graph: beside it they go with matrices and arrays")
    asked: dict[str, Any] = {"classes": classes, "directed": bool(directed)}
    if hasattr(data, "nodes") and hasattr(data, "is_directed"):
        return _networkx(data, split, asked, directed)
    if hasattr(data, "edge_index"):
        return _geometric(data, split, asked)
    if is_array:
        if labels is None:
            raise invalid("labels", None, "one for each node, -1 for none")
        if hasattr(data, "tocoo"):
            entries = data.tocoo()
            if entries.shape[0] != entries.shape[1]:
                raise invalid("graph of shape", entries.shape, "a square matrix")
            there = entries.data != 0  # a zero that is stored is no edge
            data = np.stack([entries.row[there], entries.col[there]])
        return from_arrays(data, _array(labels), _array(features), split, **asked)
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], dict):
        return from_arrays(data[0]["edge_index"], data[1], data[0].get("node_feat"), split, **asked)  # of OGB
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and len(data) == 1:
        return own_graph(data[0], classes=classes, split=split, directed=directed)  # a data set of one graph
    raise invalid("data", type(data).__name__, "a graph of PyTorch Geometric, NetworkX or SciPy, arrays or a .npz file")


def _array(value: Any) -> Any:
    """A tensor as an array; sparse matrices stay as they are."""
    if value is None or hasattr(value, "tocoo"):
        return value
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _changed(own: OwnGraph, split: Any, directed: bool | None) -> OwnGraph:
    roles = own.split if split is None else roles_of(split, len(own.ids), own.where)
    return replace(own, split=roles, directed=own.directed if directed is None else directed)


def _geometric(data: Any, split: Any, asked: dict[str, Any]) -> OwnGraph:
    y = _array(getattr(data, "y", None))
    if y is None:
        raise UserError("data.y: expected a label for each node, -1 for none")
    masks = [_array(getattr(data, f"{name}_mask", None)) for name in ("train", "val", "test")]
    several = [mask.shape[1] for mask in masks if mask is not None and mask.ndim == 2]
    if split is None and several:
        raise UserError(f"data.train_mask: {several[0]} splits: expected one, or split= with a role for each node")
    if split is None and all(mask is not None and mask.shape == (len(y),) for mask in masks):
        # a node without a role has a label that nobody trains on: it is held out
        split = np.select(masks, ["train", "val", "test"], default="test")
    return from_arrays(_array(data.edge_index), y, _array(getattr(data, "x", None)), split, where="data", **asked)


def _networkx(graph: Any, split: Any, asked: dict[str, Any], directed: bool | None) -> OwnGraph:
    """Attributes of nodes: `label`, and `x`, numbers; a node without a label has none."""
    nodes = list(graph.nodes(data=True))
    names = {name: place for place, (name, _) in enumerate(nodes)}
    edges = np.array([(names[u], names[v]) for u, v, *_ in graph.edges()], dtype=np.int64).reshape(-1, 2)
    labels = np.fromiter((values.get("label") for _, values in nodes), dtype=object, count=len(nodes))
    rows = [values.get("x") for _, values in nodes]
    features = None
    if any(row is not None for row in rows):
        lengths = {len(np.atleast_1d(row)) if row is not None else -1 for row in rows}
        if len(lengths) != 1:
            raise invalid("lengths of x", sorted(lengths), "as many numbers for each node")
        features = np.array([np.atleast_1d(row) for row in rows], dtype=np.float32)
    asked = asked | {"directed": graph.is_directed() if directed is None else directed}
    ids = [str(name) for name, _ in nodes]
    if len(set(ids)) != len(ids):
        raise UserError("graph: two nodes have one name as text, such as 1 and '1': expected distinct ones")
    return in_order(from_arrays(edges.T, labels, features, split, ids=ids, where="graph", **asked))
