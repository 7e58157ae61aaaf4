"""Graphs of other libraries: PyTorch Geometric, OGB, NetworkX, SciPy. None of them is imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, invalid
from dpgraph.own_graph import arrays
from dpgraph.own_graph.graph import OwnGraph
from dpgraph.own_graph.networkx_graphs import GRAPHML, from_networkx, read_graphml
from dpgraph.own_graph.tables import read_csv_graph

OTHERS = ("igraph", "dgl", "graph_tool", "networkit")  # libraries whose graphs NetworkX can hold
EXPECTED = "a graph of PyTorch Geometric, NetworkX or SciPy, arrays, or a file .npz, .graphml or .graphml.gz"


def own_graph(
    data: Any,
    labels: Any = None,
    features: Any = None,
    *,
    classes: Sequence[str] | None = None,
    split: Any = None,
    directed: bool | None = None,
) -> OwnGraph:
    """Return the graph that `data` holds; `dpgraph.fit` documents the arguments.

    Raises UserError for data that are no graph, for several graphs, and for arguments that do not go with it.
    """
    if isinstance(data, OwnGraph):
        if (labels, features, classes, split, directed) != (None,) * 5:
            raise UserError("data is an OwnGraph: expected no labels, features, classes, split or directed with it")
        return data
    options: dict[str, Any] = {"classes": classes, "split": split, "directed": directed}
    named = {"label": labels, "features": features}
    if type(data).__module__.partition(".")[0] in OTHERS or hasattr(data, "to_networkx"):
        way = "a NetworkX graph: data.to_networkx() makes one (of DGL: with node_attrs=['label', ...])"
        raise invalid("data", type(data).__name__, way)
    if isinstance(data, str | Path) and Path(data).name.endswith(GRAPHML):
        return read_graphml(Path(data), **named, **options)
    if hasattr(data, "nodes") and hasattr(data, "edges") and hasattr(data, "is_directed"):
        return from_networkx(data, where="graph", **named, **options)
    if hasattr(data, "to_csv") or (isinstance(data, tuple) and any(hasattr(one, "to_csv") for one in data)):
        way = "the paths of two files, ('edges.csv', 'nodes.csv'): frame.to_csv('edges.csv', index=False) writes one"
        raise invalid("data", "DataFrame", way)
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(one, str | Path) for one in data):
        return _csv(data, labels, features, options)
    if labels is not None and _is_arrays(data):
        return _arrays(data, labels, features, options)
    for name, value in (("labels", labels), ("features", features)):
        if value is not None:
            raise UserError(f"{name}: pass it inside the graph; separate arrays go with a matrix or an edge array")
    if isinstance(data, str | Path):
        found = arrays.read_npz(Path(data), classes)
        return found if directed is None and split is None else _changed(found, split, directed)
    if isinstance(data, Mapping):
        return arrays.from_named(data, where="data", strict=True, **options)
    if _is_arrays(data) and not isinstance(data, list):
        raise invalid("labels", None, "one for each node, -1 for none")
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], Mapping):  # of OGB
        return arrays.from_named({**data[0], "y": data[1]}, where="graph", strict=False, **options)
    return _geometric(data, options)


def _is_arrays(data: Any) -> bool:
    """Return whether it is a matrix, a tensor, an array or a list of edges."""
    return (
        arrays.is_sparse(data)
        or arrays.is_tensor(data)
        or isinstance(data, np.ndarray)
        or (isinstance(data, list) and len(data) > 1)
    )


def _arrays(data: Any, labels: Any, features: Any, options: dict[str, Any]) -> OwnGraph:
    """Read a sparse or dense (N, N) matrix, or an array of edges, with separate labels."""
    y, weighted = arrays.label_column(labels, "labels"), False
    if not arrays.is_sparse(data):
        data = arrays.as_array(data, "data")
    if arrays.is_sparse(data) or (data.shape == (len(y), len(y)) and len(y) > 2):
        edges, weighted = arrays.matrix_ends(data, len(y), "graph")
        how = "a matrix (N, N)"
    else:
        edges = arrays.pairs(data, "graph: edges")
        how = "an array (2, E)" if edges is data else "an array (E, 2), an edge in each row"
    read = arrays.in_words({"edges": how}, ["weights of the matrix"] if weighted else [])
    return arrays.from_arrays(edges, y, features, **(options | {"directed": bool(options["directed"])}), read=read)


def _csv(paths: tuple[Any, Any], labels: Any, features: Any, options: dict[str, Any]) -> OwnGraph:
    """Read the CSV files of edges and nodes; `labels` and `split` may name columns."""
    columns = {"labels": labels, "split": options["split"], "features": features}
    for name, value in columns.items():
        if value is not None and (name == "features" or not isinstance(value, str)):
            raise UserError(f"{name}: expected none with CSV files, or the name of a column of labels or roles")
    return read_csv_graph(Path(paths[0]), Path(paths[1]), label_column=labels or "label", split_column=options["split"],
                          classes=options["classes"], directed=bool(options["directed"]))  # fmt: skip


def _changed(own: OwnGraph, split: Any, directed: bool | None) -> OwnGraph:
    roles = own.split if split is None else arrays.roles_of(split, len(own.ids), own.where)
    return replace(own, split=roles, directed=own.directed if directed is None else directed)


def _geometric(data: Any, options: dict[str, Any]) -> OwnGraph:
    """Read `Data` of PyTorch Geometric, or a data set of one graph."""
    kind = type(data).__name__
    if "Hetero" in kind or isinstance(getattr(data, "edge_index_dict", None), Mapping):
        raise invalid("data", kind, "a graph with one type of nodes: data.to_homogeneous() makes one")
    several = getattr(data, "num_graphs", 1)
    if several != 1:
        raise UserError(f"data of {several} graphs: expected one of them, such as data[0]")
    is_set = hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "stores")
    if not is_set and hasattr(data, "edge_index"):
        values = data.to_dict() if hasattr(data, "to_dict") else vars(data)
        return arrays.from_named(values, where="data", strict=False, **options)
    if not is_set or isinstance(data, str | bytes | tuple | set | range):
        raise invalid("data", kind, EXPECTED)
    if len(data) != 1:
        raise UserError(f"data of {len(data)} graphs: expected one of them, such as data[0]")
    if isinstance(data[0], list):
        raise invalid("data", kind, EXPECTED)
    if options["split"] is None and hasattr(data, "get_idx_split"):  # of OGB
        options = options | {"split": data.get_idx_split()}
    return own_graph(data[0], **options)
