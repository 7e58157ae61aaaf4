"""Graphs as objects of other libraries: what `own_graph` takes, and its arguments. No rule of a reader is used."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import networkx
import numpy as np
import pandas
import scipy.sparse

from tests.fuzz.made import Made

Given = tuple[Any, dict[str, Any]]
Build = Callable[[Made, Random], Given]


def geometric(masks: Sequence[str] = (), **changed: Callable[[Any], Any]) -> Build:
    """`Data` with masks of these parts, and with attributes that functions have changed."""

    def build(made: Made, random: Random) -> Given:
        import torch
        from torch_geometric.data import Data

        edges, labels, features = map(torch.from_numpy, made.numbered())
        data = Data(edge_index=edges, y=labels, x=features if made.columns else None, num_nodes=len(made.ids))
        for name, change in changed.items():
            setattr(data, name, change(getattr(data, name)))
        for part in masks:
            data[f"{part}_mask"] = torch.tensor([one == part for one in made.split or ()])
        return data, {"directed": made.directed}

    return build


def with_adjacency(made: Made, random: Random) -> Given:
    """As T.ToSparseTensor: row i of adj_t has the nodes that point to i."""
    import torch

    data, given = geometric()(made, random)
    edges, size = torch.tensor(sorted(made.arcs)).reshape(-1, 2).T, len(made.ids)
    matrix = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), (size, size)).coalesce()
    data.adj_t = random.choice((matrix, matrix.to_sparse_csr()))
    del data.edge_index
    return data, given


def renamed(old: str, new: str) -> Build:
    def build(made: Made, random: Random) -> Given:
        data, given = geometric()(made, random)
        data[new] = data[old]
        del data[old]
        return data, given

    return build


def one_hot(labels: Any) -> Any:
    import torch

    return torch.nn.functional.one_hot(labels.clamp(min=0))


def with_rows(made: Made, random: Random) -> Given:
    """A graph of NetworkX with attributes `label` and `x`; one label in two that is missing is there, as none."""
    graph = made.graph(typed=random.random() < 0.5)
    for node, label, row in zip(graph.nodes, made.labels, made.features):
        if label is not None or random.random() < 0.5:
            graph.nodes[node]["label"] = random.choice((None, float("nan"))) if label is None else label
        if made.columns:
            graph.nodes[node]["x"] = random.choice((row, row.tolist()))
    return random.choice((graph, networkx.MultiDiGraph(graph) if made.directed else networkx.MultiGraph(graph))), {}


def with_attributes(made: Made, random: Random) -> Given:
    """A graph of NetworkX with an attribute for each feature."""
    graph = made.graph()
    for node, label, row in zip(graph.nodes, made.labels, made.features.tolist()):
        graph.nodes[node].update(dict(zip(made.columns, row)) | ({} if label is None else {"label": label}))
    return graph, {}


def through_graphml(made: Made, random: Random) -> Given:
    held = io.BytesIO()
    networkx.write_graphml_xml(with_attributes(made, random)[0], held)
    held.seek(0)
    return networkx.read_graphml(held), {}


def through_igraph(made: Made, random: Random) -> Given:
    """As igraph writes GraphML: nodes n0, n1 and so on with an attribute `name`."""
    graph = with_attributes(made, random)[0]
    networkx.set_node_attributes(graph, {node: str(node) for node in graph}, "name")
    named = networkx.relabel_nodes(graph, dict(zip(graph, (f"n{place}" for place in range(len(graph))))))
    held = io.BytesIO()
    networkx.write_graphml_xml(named, held)
    held.seek(0)
    return networkx.read_graphml(held), {}


def named_arrays(made: Made, random: Random) -> Given:
    edges, labels, features = made.numbered()
    by = random.choice(({"edge_index": edges}, {"edges": edges.T}, {"adj": matrix(made, "csr_array")}))
    names = random.choice((("y", "x"), ("labels", "features")))
    values = by | {names[0]: labels} | ({names[1]: features} if made.columns else {})
    return values | ({"split": list(made.split)} if made.split else {}), {"directed": made.directed}


def beside(made: Made, random: Random, *kinds: str) -> dict[str, Any]:
    """Arguments that go with a matrix or an array; features of one of these kinds."""
    rows = made.features.astype(np.float32)
    fits = bool((abs(rows) < 60_000).all() and (rows == rows.astype(np.float16)).all())
    built: dict[str, Callable[[], Any]] = {
        "array": lambda: made.features,
        "list": made.features.tolist,
        "float32": lambda: rows,
        "float16": lambda: rows.astype(np.float16) if fits else rows,
        "csr": lambda: scipy.sparse.csr_matrix(made.features),
        "coo": lambda: scipy.sparse.coo_array(rows),
        "frame": lambda: pandas.DataFrame(made.features, columns=list(made.columns)),
    }
    given = {"features": built[random.choice(kinds or sorted(built))]()} if made.columns else {}
    return {"labels": texts(made), "directed": made.directed, "split": made.split, **given}


def texts(made: Made) -> np.ndarray:
    return np.array(made.labels, dtype=object)


def matrix(made: Made, kind: str, dtype: str = "float64") -> Any:
    """All arcs, both ways unless directed."""
    edges = np.array(sorted(made.arcs), dtype=np.int64).reshape(-1, 2).T
    return getattr(scipy.sparse, kind)((np.ones(edges.shape[1], dtype=dtype), edges), shape=(len(made.ids),) * 2)


def of_scipy(made: Made, random: Random) -> Given:
    held = matrix(
        made,
        random.choice(("csr_matrix", "csc_matrix", "coo_matrix", "csr_array", "coo_array", "csc_array")),
        random.choice(("float64", "bool", "int8", "float32")),
    )
    if not made.directed and random.random() < 0.3:
        held = scipy.sparse.triu(held)
    labels = random.choice((texts(made), list(made.labels), pandas.Series(made.labels, dtype=object)))
    return held, beside(made, random) | {"labels": labels}


def of_arrays(made: Made, random: Random) -> Given:
    edges, labels, _ = made.numbered()
    holes = np.where(labels < 0, np.nan, labels)
    given = random.choice((labels, labels[:, None], holes, labels.astype(np.int8), labels.tolist()))
    edges = edges.astype(random.choice(("int64", "int32", "uint32", "uint64", "int16")))
    return edges, beside(made, random) | {"labels": given}


def of_tensors(made: Made, random: Random) -> Given:
    data, given = geometric()(made, random)
    return data.edge_index, {"labels": data.y, "features": data.x, **given}


def of_ogb(made: Made, random: Random) -> Given:
    edges, labels, features = made.numbered()
    graph = {"edge_index": edges, "node_feat": features if made.columns else None, "num_nodes": len(labels)}
    return ({**graph, "edge_feat": None}, labels[:, None]), {"directed": made.directed}


def and_beside(build: Callable[[Made], Any], *kinds: str) -> Build:
    return lambda made, random: (build(made), beside(made, random, *kinds))


ORDINARY_OBJECTS: dict[str, Build] = {
    "PyTorch Geometric": geometric(),
    "PyTorch Geometric, three masks": geometric(("train", "val", "test")),
    "PyTorch Geometric, x as float64": geometric(x=lambda x: x.double()),
    "PyTorch Geometric, labels in a column": geometric(y=lambda y: y[:, None]),
    "PyTorch Geometric, labels as floats, short ids": geometric(
        y=lambda y: y.float().masked_fill(y < 0, float("nan")), edge_index=lambda edges: edges.int()
    ),
    "NetworkX": with_rows,
    "SciPy": of_scipy,
    "arrays": of_arrays,
    "tensors": of_tensors,
    "OGB": of_ogb,
}
OTHER_OBJECTS: dict[str, Build] = {
    "PyTorch Geometric, two masks": geometric(("train", "test")),
    "PyTorch Geometric, one mask": geometric(("train",)),
    "PyTorch Geometric, x as float16": geometric(x=lambda x: x.half()),
    "PyTorch Geometric, x as bfloat16": geometric(x=lambda x: x.bfloat16()),
    "PyTorch Geometric, x as a sparse tensor": geometric(x=lambda x: x.to_sparse()),
    "PyTorch Geometric, x as sparse rows": geometric(x=lambda x: x.to_sparse_csr()),
    "PyTorch Geometric, x as it is trained": geometric(x=lambda x: x.requires_grad_()),
    "PyTorch Geometric, labels as rows of a code": geometric(y=one_hot),
    "PyTorch Geometric, labels under another name": renamed("y", "label"),
    "PyTorch Geometric, x as feat": renamed("x", "feat"),
    "PyTorch Geometric, adj_t": with_adjacency,
    "NetworkX, an attribute of each feature": with_attributes,
    "NetworkX, GraphML": through_graphml,
    "NetworkX, GraphML of igraph": through_igraph,
    "a dictionary of arrays, with or without a split": named_arrays,
    "SciPy of NetworkX": and_beside(lambda made: networkx.to_scipy_sparse_array(made.graph())),
    "a dense adjacency matrix": and_beside(lambda made: matrix(made, "csr_array").toarray()),
    "edges in rows": and_beside(lambda made: made.numbered()[0].T),
    "edges as floats": and_beside(lambda made: made.numbered()[0].astype(float)),
    "a table of edges": and_beside(lambda made: made.ends()),
}
