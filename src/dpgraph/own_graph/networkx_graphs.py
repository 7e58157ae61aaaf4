"""Graphs of NetworkX, and GraphML files, which it reads: attributes of nodes by their names and content."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, meant, shown
from dpgraph.own_graph.arrays import MASK, as_array, from_arrays, in_words, is_tensor, mask_roles
from dpgraph.own_graph.graph import OwnGraph, in_order
from dpgraph.own_graph.tables import ID_LIKE, LEAST_ROWS

GRAPHML = (".graphml", ".graphml.gz")


def read_graphml(path: Path, **options: Any) -> OwnGraph:
    """Read the one graph of a GraphML file, which may be compressed; arguments as those of `from_networkx`."""
    from networkx.readwrite.graphml import GraphMLReader

    if not path.is_file():
        raise UserError(f"{path}: no such file: expected a GraphML file")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            graphs = list(GraphMLReader(node_type=str)(path=file))
    except Exception as error:  # whatever the parser raises at damaged content
        raise UserError(f"{path}: expected a GraphML file: {type(error).__name__}: {shown(str(error))}") from None
    if len(graphs) != 1:
        raise UserError(f"{path}: {len(graphs)} graphs: expected one")
    return replace(from_networkx(graphs[0], where=str(path), **options), files=(path,))


def from_networkx(
    graph: Any,
    *,
    where: str,
    label: str | None = None,
    split: Any = None,
    features: Any = None,
    ignored: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    directed: bool | None = None,
) -> OwnGraph:
    """Return the graph of NetworkX with its nodes in the order of their ids.

    `label` and `split` name attributes of nodes; `features` those to read, else every one that is a number or a row of
    numbers, but those that are `ignored`. Raises UserError for a number that some nodes lack.
    """
    nodes = list(graph.nodes(data=True))
    places = {name: place for place, (name, _) in enumerate(nodes)}
    ids = [str(name) for name in places]
    if len(set(ids)) != len(ids):
        raise UserError(f"{where}: two nodes have one name as text, such as 1 and '1': expected distinct ones")
    edges = np.array([(places[u], places[v]) for u, v, *_ in graph.edges()], dtype=np.int64).reshape(-1, 2).T
    # public: no one record decides their order
    known = sorted({*chain.from_iterable(values for _, values in nodes)}, key=lambda name: (str(name), repr(name)))
    of = {name: [values.get(name) for _, values in nodes] for name in known}

    label = "label" if label is None else label
    y = np.fromiter(
        (_one(value, where) for value in _attribute(of, label, "--label", where)), dtype=object, count=len(nodes)
    )
    masks = {name: as_array(of[name], f"{where}: {name}") for name in known if _is_mask(name)}
    if split is None and "split" in of and masks:
        raise UserError(f"{where}: split and {next(iter(masks))}: expected one of them, or split= in their place")
    by = split if isinstance(split, str) else "split" if split is None and "split" in of else None
    if by is not None:
        roles: Any = [_one(value, where) for value in _attribute(of, by, "--split", where)]
    else:
        roles = mask_roles(masks, len(nodes), where) if split is None else split
    for name in ignored:
        _attribute(of, name, "--ignore", where)
    read = {label, by or "split", *masks}
    by = by or ("split=" if split is not None else ", ".join(map(str, masks)) or "none")
    columns = _columns(of, features, {*read, *ignored}, ids, where)
    weights = {name for *_, values in graph.edges(data=True) for name in values}
    not_read = [str(name) for name in known if name not in columns and name not in read]
    not_read += [f"{name} of edges" for name in sorted(map(str, weights))]
    found = from_arrays(
        edges, y, np.column_stack([*columns.values()]) if columns else None, roles, ids=ids, where=where,
        classes=classes, directed=graph.is_directed() if directed is None else directed, columns=_names(columns),
        read=in_words({"label": label, "features": ", ".join(map(str, columns)) or "none", "split": by}, not_read),
    )  # fmt: skip
    return in_order(found)


def _attribute(of: Mapping[Any, list[Any]], name: Any, option: str, where: str) -> list[Any]:
    """Return the values of an attribute of nodes. Raises UserError where no node has it."""
    if not isinstance(name, str):
        raise UserError(f"{where}: {option} of type {type(name).__name__}: expected the name of an attribute")
    if name not in of:
        here = ", ".join(shown(one) for one in list(of)[:20]) or "none"
        raise UserError(f"{where}: no attribute {shown(name)} of nodes ({option}): they have {here}"
                        f"{meant(name, map(str, of))}")  # fmt: skip
    return of[name]


def _columns(of: Mapping[Any, list[Any]], names: Any, others: set[Any], ids: list[str], where: str) -> dict[Any, Any]:
    """Return (N,) or (N, F) numbers by attribute: those of `names`, or all but `others`, texts, ids and row numbers."""
    if names is not None:
        wanted = names if isinstance(names, list | tuple) else [names]
        columns = {name: _numbers(_attribute(of, name, "--features", where), name, ids, where) for name in wanted}
        for name, row in columns.items():
            if row is None:
                raise UserError(f"{where}: attribute {shown(name)}: expected a number for each node")
        return columns
    columns = {}
    for name in of:
        row = None if name in others or ID_LIKE.fullmatch(str(name)) else _numbers(of[name], str(name), ids, where)
        if row is None:
            continue
        if len(row) >= LEAST_ROWS and row.ndim == 1 and row[0] in (0, 1) and (np.diff(row) == 1).all():
            raise UserError(f"{where}: attribute {shown(name)} is no feature: it numbers the nodes, whose order may "
                            "tell labels: leave it out (--ignore)")  # fmt: skip
        columns[name] = row
    return columns


def _is_mask(name: Any) -> bool:
    """Return whether an attribute is a mask; indices of nodes are not at nodes."""
    found = MASK.fullmatch(str(name))
    return found is not None and found[2].startswith("mask")


def _names(columns: dict[str, np.ndarray]) -> list[str]:
    """Return a name for each column; none where all are one row of numbers, which have places and no names."""
    if len(columns) == 1 and next(iter(columns.values())).ndim == 2:
        return []
    return [f"{name} {place}" if row.ndim == 2 else str(name)
            for name, row in columns.items() for place in range(row.shape[1] if row.ndim == 2 else 1)]  # fmt: skip


def _one(value: Any, where: str) -> Any:
    """Return a value that came in an array, a tensor or a list of one as it is."""
    if hasattr(value, "tolist"):
        value = as_array(value, where).tolist()
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def _numbers(values: list[Any], name: str, ids: list[str], where: str) -> np.ndarray | None:
    """Return (N,) or (N, F) numbers; None where no node has one. Raises UserError where some have and some lack one."""
    kinds = [_kind(value) for value in values]
    if "numbers" not in kinds and "number" not in kinds:
        return None
    place = next((place for place, kind in enumerate(kinds) if kind == "other" or kind != kinds[0]), None)
    if place is not None:
        raise UserError(f"{where}: node {shown(ids[place])}: {shown(name)}={shown(values[place])}: expected a number, "
                        "as other nodes have (or leave it out: --ignore)")  # fmt: skip
    rows = [as_array(value, f"{where}: {name}").reshape(-1) for value in values]
    lengths = {len(row) for row in rows}
    if len(lengths) != 1:
        raise UserError(f"{where}: lengths of {shown(name)}={shown(sorted(lengths))}: expected as many numbers for "
                        "each node")  # fmt: skip
    array = np.stack(rows)
    if array.dtype.kind not in "biuf":
        raise UserError(f"{where}: {shown(name)} of type {array.dtype}: expected numbers")
    return array[:, 0] if kinds[0] == "number" else array


def _kind(value: Any) -> str:
    """Return number, numbers or other."""
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return "number"
    if isinstance(value, list | tuple):
        return "numbers"
    if isinstance(value, np.ndarray) or is_tensor(value):
        return "numbers" if value.ndim else "number"
    return "other"
