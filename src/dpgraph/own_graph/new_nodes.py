"""New nodes from CSV or .npz files, read as `fit` read the old ones: names, records, and lists of old nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgraph.core.errors import UserError, invalid, shown
from dpgraph.own_graph.arrays import arrays_of
from dpgraph.own_graph.edge_tables import EdgeTable, find_ids, read_edges
from dpgraph.own_graph.graph import DEGREES, MOST_NUMBERS
from dpgraph.own_graph.model import Header
from dpgraph.own_graph.tables import ids_of, numbers_of, read_nodes

NEW_NPZ = ("x", "edge_index", "num_nodes")


@dataclass(frozen=True, eq=False)
class NewNodes:
    ids: list[str]
    features: np.ndarray | None  # None: the model reads lengths of lists
    lists: list[list[str]] | None  # of ids of old nodes


def read_new_nodes(
    header: Header,
    nodes: Path,
    edges: Path | None,
    id_column: str | None = None,
    source: str | None = None,
    target: str | None = None,
) -> NewNodes:
    """Read new nodes; `edges`: a new and an old node in a row, the new one first if the model's graph is directed.

    Raises UserError for new nodes of old ids, ids that are neither, and a model without features that is given no
    lists.
    """
    table, id_name = read_nodes(Path(nodes), id_column)
    ids = ids_of(table, id_name)
    again = np.flatnonzero(find_ids(ids, header.ids) >= 0)
    if len(again):
        row = int(again[0])
        raise UserError(f"{nodes}, row {row + table.first}: id={shown(ids[row])}: the model was trained with this "
                        "node: expected new ids (old nodes have their rows in owners/)")  # fmt: skip
    features = None
    if not header.degree_features:
        for name in header.names:
            table.texts(name, "a feature of the model")
        features = numbers_of(table, header.names, ignorable=False)
    elif edges is None:
        raise UserError("--edges: expected with a model without features, which reads the lengths of lists")
    if edges is None:
        return NewNodes(ids, features, None)
    return NewNodes(ids, features, _lists(header, read_edges(edges, [*ids, *header.ids], source, target), ids, nodes))


def _lists(header: Header, edges: EdgeTable, ids: list[str], nodes: Path) -> list[list[str]]:
    new = [find_ids(texts, ids) for texts in edges.ends]
    old = [find_ids(texts, header.ids) for texts in edges.ends]
    forth = (new[0] >= 0) & (old[1] >= 0)
    back = (new[1] >= 0) & (old[0] >= 0) & (not header.directed)
    wrong = np.flatnonzero(~(forth | back))
    if len(wrong):
        row = int(wrong[0])
        found = ", ".join(f"{name}={shown(texts[row])}" for name, texts in zip(edges.names, edges.ends, strict=True))
        order = "first" if header.directed else "at one end"
        raise UserError(f"{edges.row(row)}: {found}: expected an id of {nodes} {order}, and at the other end "
                        "one of a node that the model was trained with")  # fmt: skip
    return _grouped(header, np.concatenate([new[0][forth], new[1][back]]),
                    np.concatenate([old[1][forth], old[0][back]]), len(ids))  # fmt: skip


def _grouped(header: Header, ours: np.ndarray, theirs: np.ndarray, size: int) -> list[list[str]]:
    """Return, for each of `size` new nodes, the ids of the old ones at `theirs` where it is in `ours`."""
    known = np.asarray(header.ids, dtype=object)[theirs[np.argsort(ours, kind="stable")]]
    cuts = np.cumsum(np.bincount(ours, minlength=size))[:-1]
    return [part.tolist() for part in np.split(known, cuts)]


def read_new_npz(header: Header, path: Path) -> NewNodes:
    """Read arrays x (M, F) and edge_index (2, E): old nodes are 0..N - 1, as in `fit`, new ones N..N + M - 1.

    Each column of `edge_index` joins a new node and an old one, the new one first if the model's graph is directed. A
    model without features has num_nodes = M in the place of x, and needs edge_index. Raises UserError for all else.
    """
    path, first = Path(path), len(header.ids)
    arrays = arrays_of(path, NEW_NPZ)
    if header.ids != tuple(map(str, range(first))):
        raise UserError(f"--graph {path}: nodes of this model have names, such as {shown(header.ids[0])}, and no "
                        "numbers: expected --nodes")  # fmt: skip
    if header.degree_features:
        features, size = None, _number_of(arrays, path)
    else:
        features = _rows(arrays, path, header)
        size = len(features)
    ids = [str(first + place) for place in range(size)]
    if "edge_index" not in arrays:
        return NewNodes(ids, features, None)
    return NewNodes(ids, features, _grouped(header, *_joined(arrays["edge_index"], path, header, size), size))


def _number_of(arrays: dict[str, np.ndarray], path: Path) -> int:
    """Return M, for a model that reads the lengths of lists."""
    if "x" in arrays:
        raise UserError(
            f"{path}: x: expected none: the model was made without features; num_nodes says how many are new"
        )
    for name in ("num_nodes", "edge_index"):
        if name not in arrays:
            raise UserError(f"{path}: no array {name}: expected one with a model without features, which reads the "
                            "lengths of lists")  # fmt: skip
    given, most = arrays["num_nodes"], MOST_NUMBERS // DEGREES
    if given.shape != () or given.dtype.kind not in "iu" or not 1 <= int(given) <= most:
        raise UserError(f"{path}: num_nodes={shown(str(given))}: expected one integer in 1..{most}")
    return int(given)


def _rows(arrays: dict[str, np.ndarray], path: Path, header: Header) -> np.ndarray:
    """Return (M, F) numbers, as `fit` reads them."""
    if "num_nodes" in arrays:
        raise UserError(f"{path}: num_nodes: expected none: the model has features, and x a row for each new node")
    if "x" not in arrays:
        raise UserError(f"{path}: no array x: expected rows of {header.num_features} numbers, one for each new node")
    given = arrays["x"]
    if given.ndim != 2 or given.shape[1] != header.num_features or not len(given) or given.dtype.kind not in "biuf":
        raise UserError(f"{path}: x of shape {given.shape}, type {given.dtype}: expected a row of "
                        f"{header.num_features} numbers for each new node")  # fmt: skip
    wrong = np.flatnonzero(~np.isfinite(given).all(axis=1))
    if len(wrong):
        raise UserError(f"{path}: x, row {wrong[0]}: expected finite numbers")
    return given


def _joined(edges: np.ndarray, path: Path, header: Header, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (E,) places of new nodes, and of the old ones that they are joined to."""
    first = len(header.ids)
    if edges.ndim != 2 or edges.shape[0] != 2 or (edges.size and edges.dtype.kind not in "iu"):
        raise UserError(f"{path}: edge_index of shape {edges.shape}, type {edges.dtype}: expected integers (2, E)")
    if not edges.size:  # of whatever type
        edges = np.zeros((2, 0), dtype=np.int64)
    outside = (edges < 0) | (edges >= first + size)
    if outside.any():
        column = int(outside.any(axis=0).argmax())
        found = int(edges[int(outside[:, column].argmax()), column])
        allowed = f"0..{first + size - 1}: {first} old nodes, then {size} new ones"
        raise invalid(f"{path}: edge_index, column {column}: id", found, allowed)
    ends = edges.astype(np.int64)
    new = ends >= first
    right = new[0] & ~new[1] if header.directed else new[0] ^ new[1]
    if not right.all():
        column = int((~right).argmax())
        order = "first" if header.directed else "at one end"
        raise UserError(
            f"{path}: edge_index, column {column}: {ends[0, column]}, {ends[1, column]}: expected a new node "
            f"({first}..{first + size - 1}) {order}, and at the other end an old one (0..{first - 1})"
        )
    return np.where(new[0], ends[0], ends[1]) - first, np.where(new[0], ends[1], ends[0])
