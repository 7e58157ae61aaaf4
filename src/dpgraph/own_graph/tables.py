"""Node tables and edge lists in files: which column is what, by its name and content."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, shown
from dpgraph.own_graph.edge_tables import NUMBERS_ROWS, find_ends, read_edges, without_decimals
from dpgraph.own_graph.graph import OwnGraph, in_order, split_of
from dpgraph.own_graph.labels import read_labels
from dpgraph.own_graph.table_files import FileTable, is_number, read_table

ID_NAMES = ("id", "nodeid", "node", "vertexid", "vertex", "userid", "user", "name", "nodename")  # in this order
ID_LIKE = re.compile(r"(?i:.*[ _-]id|id)|.*[a-z]I[dD]")
MASKS = re.compile(r"((is|in)[ _-])?(train|val|valid|validation|dev|test)(ing)?([ _-]?(mask|set))?", re.I)
LEAST_ROWS = 10  # from which 1, 2, 3, ... is no chance
TRUTH = {"true": "1", "false": "0", "yes": "1", "no": "0"}


def read_nodes(path: Path, id_column: str | None) -> tuple[FileTable, str]:
    """Return the table and the name of its column of ids. Raises UserError for a table without a header."""

    def judge(cells: Sequence[str]) -> bool | None:
        if _named(cells, id_column, ID_NAMES) is not None:
            return True
        if not cells[0] and all(cells[1:]):
            return True  # as pandas and R write the index, also above columns that are called 0, 1, 2, ...
        return False if any(map(is_number, cells)) else None

    table = read_table(path, judge)
    found = _named(table.names, id_column, ID_NAMES)
    if not len(table):
        raise UserError(f"{path}: no row: expected one for each node")
    if found is not None:
        return table, found
    if not table.header and table.names[0] == "column 1":
        raise UserError(f"{path}: no names of columns in the first row, which has numbers: expected them there, such "
                        "as id,label,age")  # fmt: skip
    table.texts(id_column or ID_NAMES[0], "--id")
    raise TypeError(f"{path}: a column of ids that has no name")


def read_csv_graph(
    edges: Path,
    nodes: Path,
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    source: str | None = None,
    target: str | None = None,
    ignored: Sequence[str] = (),
    kept: Collection[str] = (),
    missing: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    directed: bool = False,
) -> OwnGraph:
    """Return the graph of a list of edges and a table of nodes: id, label, split, and numbers, which are features.

    `ignored`: columns that are no features; `kept`: those that are, whatever they look like; `missing`: texts that mean
    no label. Raises UserError for what it is not sure of.
    """
    edges, nodes = Path(edges), Path(nodes)
    table, id_name = read_nodes(nodes, id_column)
    ids = ids_of(table, id_name)
    label_name = _named(table.names, label_column, ("label",)) or label_column or "label"
    labels = read_labels(
        table.texts(label_name, "--label"), classes, str(nodes), first=table.first, missing=missing
    )  # fmt: skip
    split_name = _named(table.names, split_column, ("split",)) or split_column
    split = None
    if split_name is not None:
        split = split_of(table.texts(split_name, "--split"), str(nodes), table.first)
    for name in ignored:
        table.texts(name, "--ignore")
    taken = {id_name, label_name, split_name, *ignored}
    rest = [name for name in table.names if name not in taken and name not in table.empty]
    numbered = [name for name in rest if name not in kept and NUMBERS_ROWS.fullmatch(name)]
    for name in numbered:
        if not _numbers_rows(table, name):
            raise _no_feature(nodes, name, "its name says that it numbers rows")
    left_out = [f"{name} (--ignore)" for name in ignored]
    left_out += [f"{name} (row numbers)" for name in numbered]
    left_out += [f"{name} (empty)" for name in table.names if name not in taken and name in table.empty]
    columns = tuple(name for name in rest if name not in set(numbered))
    _check_columns(table, [name for name in columns if name not in kept])
    features = numbers_of(table, columns) if columns else None
    found = read_edges(edges, ids, source, target)
    ends = find_ends(found, ids, nodes)
    read = f"{nodes.name}: {table.form}; id: {shown(id_name)}; label: {shown(label_name)}"
    read += "" if split_name is None else f"; split: {shown(split_name)}"
    read += f"; not read: {', '.join(map(shown, left_out))}" if left_out else ""
    return in_order(
        OwnGraph(
            tuple(ids), ends[0], ends[1], features, labels.places, labels.classes, split, directed, columns,
            classes is not None, str(nodes), files=(edges, nodes), read=(found.read, read), missing=labels.missing,
        )
    )  # fmt: skip


def _named(names: Sequence[str], wanted: str | None, usual: Sequence[str]) -> str | None:
    """Return the column `wanted`, or else of the first usual one, in any case and with any of ` _-`."""
    if wanted is not None:
        return wanted if wanted in names else None
    plain = {_plain(name): name for name in reversed(names)} | {name: name for name in names}
    return next((plain[name] for name in usual if name in plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[ _-](?=.)", "", name.lower())  # label_ is a column of a one-hot code


def _are_truths(column: Any) -> bool:
    texts = column.astype(str).str.strip().str.lower()
    return bool(texts.isin(("0", "1", "0.0", "1.0", "true", "false")).all())


def ids_of(table: FileTable, id_name: str) -> list[str]:
    """Return the ids, one in each row. Raises UserError for an empty one and for one that is there twice."""
    import pandas as pd

    ids = table.texts(id_name, "--id")
    if "" in ids:
        raise UserError(f"{table.path}, row {ids.index('') + table.first}: no id: expected one in column "
                        f"{shown(id_name)}")  # fmt: skip
    repeated = np.flatnonzero(pd.Index(without_decimals(ids), dtype=object).duplicated())
    if len(repeated):
        row = int(repeated[0])
        raise UserError(f"{table.path}, row {row + table.first}: id={shown(ids[row])} again: expected each id once")
    return ids


def _check_columns(table: FileTable, columns: Sequence[str]) -> None:
    """Raise UserError for a column that is no feature by its name, or by its content the number of the row."""
    for name in columns:
        if MASKS.fullmatch(name) and (name.lower().endswith("mask") or _are_truths(table.columns[name])):
            raise UserError(f"{table.path}: column {shown(name)} is a mask and no feature: expected one column split "
                            f"with train, val or test in each row, or --ignore {shown(name)!r}")  # fmt: skip
        if ID_LIKE.fullmatch(name) or _plain(name) in ID_NAMES:
            raise _no_feature(table.path, name, "its name says that it is an id")
        if len(table) >= LEAST_ROWS and _numbers_rows(table, name):
            raise _no_feature(table.path, name, "it numbers the rows, whose order may tell labels")


def _no_feature(path: Path, name: str, why: str) -> UserError:
    return UserError(f"{path}: column {shown(name)} is no feature: {why}: leave it out (--ignore {shown(name)!r}), or "
                     f"give its public range (--range {shown(name)!r}=LOW:HIGH)")  # fmt: skip


def _numbers_rows(table: FileTable, name: str) -> bool:
    import pandas as pd

    for part in (slice(LEAST_ROWS), slice(None)):  # few columns begin like that
        values = pd.to_numeric(table.columns[name].iloc[part], errors="coerce").to_numpy(dtype=np.float64)
        if values[0] not in (0, 1) or not (np.diff(values) == 1).all():
            return False
    return True


def numbers_of(table: FileTable, columns: tuple[str, ...], *, ignorable: bool = True) -> np.ndarray:
    """Return (N, F) float64 features; True and yes are 1, False and no are 0. `ignorable`: a column may be left out."""
    import pandas as pd

    features = np.empty((len(table), len(columns)))
    for place, name in enumerate(columns):
        column = table.columns[name]
        if column.dtype != float:
            column = column.str.strip()
        values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
        if np.isnan(values).all():
            values = pd.to_numeric(column.str.lower().map(TRUTH), errors="coerce").to_numpy(dtype=np.float64)
        features[:, place] = values
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            value = shown(str(column.iloc[int(wrong[0])]))
            why = " with a point for decimals, and no commas" if re.search(r"\d,\d", value) else ""
            out = f", or leave the column out: --ignore {shown(name)!r}" if ignorable else ""
            raise UserError(f"{table.path}, row {wrong[0] + table.first}, column {shown(name)}: {value}: expected a "
                            f"finite number{why} (fill it in by a public number{out})")  # fmt: skip
    return features
