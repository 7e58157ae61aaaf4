"""New nodes from CSV files, read as `fit` read the old ones: names, records, and lists of old nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgraph.errors import UserError, shown
from dpgraph.fitting.model import Header
from dpgraph.fitting.own_graph import places_of
from dpgraph.fitting.tables import column_of, ids_of, numbers_of, read_ends, read_table


@dataclass(frozen=True, eq=False)
class NewNodes:
    ids: list[str]
    features: np.ndarray | None  # None: the model reads lengths of lists
    lists: list[list[str]] | None  # of ids of old nodes


def read_new_nodes(header: Header, nodes: Path, edges: Path | None, id_column: str = "id") -> NewNodes:
    """`edges`: a new and an old node in a row, the new one first if the model's graph is directed.

    Raises UserError for ids that are neither, and for a model without features that is given no lists.
    """
    table = read_table(nodes)
    ids = ids_of(table, nodes, id_column)
    features = None
    if not header.degree_features:
        for name in header.names:
            column_of(table, name, nodes, "a feature of the model")
        features = numbers_of(table, header.names, nodes)
    elif edges is None:
        raise UserError("--edges: expected with a model without features, which reads the lengths of lists")
    return NewNodes(ids, features, None if edges is None else _lists(header, edges, ids, nodes))


def _lists(header: Header, edges: Path, ids: list[str], nodes: Path) -> list[list[str]]:
    names, ends = read_ends(edges)
    new = [places_of(texts, ids) for texts in ends]
    old = [places_of(texts, header.ids) for texts in ends]
    forth = (new[0] >= 0) & (old[1] >= 0)
    back = (new[1] >= 0) & (old[0] >= 0) & (not header.directed)
    wrong = np.flatnonzero(~(forth | back))
    if len(wrong):
        row = int(wrong[0])
        found = ", ".join(f"{name}={shown(texts[row])}" for name, texts in zip(names, ends, strict=True))
        order = "first" if header.directed else "at one end"
        raise UserError(f"{edges}, row {row + 2}: {found}: expected an id of {nodes} {order}, and at the other end "
                        "one of a node that the model was trained with")  # fmt: skip
    ours = np.concatenate([new[0][forth], new[1][back]])
    theirs = np.concatenate([old[1][forth], old[0][back]])
    loop = np.concatenate([_same(ends, forth), _same(ends, back)])  # an old node may be asked for again
    ours, theirs = ours[~loop], theirs[~loop]
    known = np.asarray(header.ids, dtype=object)[theirs[np.argsort(ours, kind="stable")]]
    cuts = np.cumsum(np.bincount(ours, minlength=len(ids)))[:-1]
    return [part.tolist() for part in np.split(known, cuts)]


def _same(ends: list[list[str]], rows: np.ndarray) -> np.ndarray:
    one, other = (np.asarray(texts, dtype=object)[rows] for texts in ends)
    return np.asarray(one == other, dtype=bool)
