"""New nodes from CSV files, read as `fit` read the old ones: names, records, and lists of old nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgraph.core.errors import UserError, shown
from dpgraph.own_graph.edge_tables import EdgeTable, read_edges
from dpgraph.own_graph.graph import places_of
from dpgraph.own_graph.model import Header
from dpgraph.own_graph.tables import ids_of, numbers_of, read_nodes


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
    again = np.flatnonzero(places_of(ids, header.ids) >= 0)
    if len(again):
        row = int(again[0])
        raise UserError(f"{nodes}, row {row + table.first}: id={shown(ids[row])}: the model was trained with this "
                        "node: expected new ids (old nodes have their rows in owners/)")  # fmt: skip
    features = None
    if not header.degree_features:
        for name in header.names:
            table.texts(name, "a feature of the model")
        features = numbers_of(table, header.names)
    elif edges is None:
        raise UserError("--edges: expected with a model without features, which reads the lengths of lists")
    if edges is None:
        return NewNodes(ids, features, None)
    return NewNodes(ids, features, _lists(header, read_edges(edges, [*ids, *header.ids], source, target), ids, nodes))


def _lists(header: Header, edges: EdgeTable, ids: list[str], nodes: Path) -> list[list[str]]:
    new = [places_of(texts, ids) for texts in edges.ends]
    old = [places_of(texts, header.ids) for texts in edges.ends]
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
