"""Edge lists and node tables in CSV files."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.errors import UserError, invalid, meant, shown
from dpgraph.fitting.labels import labels_of
from dpgraph.fitting.own_graph import OwnGraph, Ranges, in_order, places_of, scale_columns, split_of


def read_table(path: Path) -> Any:
    """All cells as text, with the header's names. Raises UserError that names the file."""
    import pandas as pd

    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected a CSV file with a header")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # of rows with more cells than the header
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False, skipinitialspace=True)
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        pd.errors.EmptyDataError,
        UnicodeError,
        ValueError,
        csv.Error,
        OverflowError,
    ) as error:
        raise UserError(f"{path}: expected a CSV file in UTF-8 with a header: {error}") from None
    frame.columns = [str(name).strip() for name in frame.columns]
    doubled = frame.columns[frame.columns.duplicated()]
    if len(doubled):
        raise UserError(f"{path}: column {shown(doubled[0])} twice: expected each name once")
    short = np.flatnonzero(frame.isna().any(axis=1))
    if len(short):
        raise UserError(f"{path}, row {short[0] + 2}: too few cells: expected {len(frame.columns)}")
    return frame


def column_of(frame: Any, name: str, path: Path, option: str) -> list[str]:
    if name not in frame.columns:
        known = list(frame.columns)
        raise UserError(f"{path}: no column {shown(name)} ({option}): it has {', '.join(map(shown, known[:20]))}"
                        f"{meant(name, known)}")  # fmt: skip
    return [value.strip() for value in frame[name].tolist()]


def read_csv_graph(
    edges: Path,
    nodes: Path,
    *,
    id_column: str = "id",
    label_column: str = "label",
    split_column: str | None = None,
    ignored: Sequence[str] = (),
    ranges: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    directed: bool = False,
) -> OwnGraph:
    """`edges`: the first two columns are ids; `nodes`: id, label, split, and numbers, which are features."""
    table = read_table(nodes)
    ids = ids_of(table, nodes, id_column)
    labels, found = labels_of(column_of(table, label_column, nodes, "--label"), classes, str(nodes))
    if split_column is None and "split" in table.columns:
        split_column = "split"
    split = None if split_column is None else split_of(column_of(table, split_column, nodes, "--split"), str(nodes))
    for name in ignored:
        column_of(table, name, nodes, "--ignore")
    taken = {id_column, label_column, split_column, *ignored}
    columns = tuple(name for name in table.columns if name not in taken)
    features = numbers_of(table, columns, nodes) if columns else None
    scales = _ranges(ranges, columns)
    if features is not None:
        scale_columns(features, columns, scales)
    source, target = _ends(edges, ids, nodes)
    return in_order(
        OwnGraph(
            tuple(ids),
            source,
            target,
            features,
            labels,
            found,
            split,
            directed,
            columns,
            classes is not None,
            str(nodes),
            scales,
            files=(edges, nodes),
        )
    )


def ids_of(table: Any, path: Path, id_column: str) -> list[str]:
    """An id in each row, each once."""
    ids = column_of(table, id_column, path, "--id")
    repeated = _first_repeated(ids)
    if repeated is not None:
        raise UserError(f"{path}, row {repeated + 2}: id={shown(ids[repeated])} again: expected each id once")
    if "" in ids:
        raise UserError(f"{path}, row {ids.index('') + 2}: no id: expected one in column {shown(id_column)}")
    return ids


def read_ends(edges: Path) -> tuple[list[str], list[list[str]]]:
    """Names and texts of the first two columns."""
    table = read_table(edges)
    if len(table.columns) < 2:
        raise UserError(f"{edges}: {len(table.columns)} column: expected two with the ids of the ends")
    names = list(table.columns[:2])
    return names, [column_of(table, name, edges, "edges") for name in names]


def _ends(edges: Path, ids: list[str], nodes: Path) -> list[np.ndarray]:
    ends = []
    for name, texts in zip(*read_ends(edges), strict=True):
        places = places_of(texts, ids)
        wrong = np.flatnonzero(places < 0)
        if len(wrong):
            row = int(wrong[0])
            found = f"{edges}, row {row + 2}, column {shown(name)}: {shown(texts[row])}"
            raise UserError(f"{found}: expected an id of {nodes}")
        ends.append(places)
    return ends


def _ranges(texts: Sequence[str], columns: tuple[str, ...]) -> Ranges:
    """COLUMN=LOW:HIGH of each text. Both ends are public."""
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, _, ends = text.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            bounds = float(low), float(high)
        except ValueError:
            bounds = 0.0, 0.0
        if name not in columns or not np.isfinite(bounds).all() or not bounds[0] < bounds[1]:
            raise invalid(
                "--range", text, f"COLUMN=LOW:HIGH with a column of features and LOW < HIGH{meant(name, columns)}"
            )
        if name in found:
            raise invalid("--range", text, "each column once")
        found[name] = bounds
    return tuple((name, *bounds) for name, bounds in found.items())


def _first_repeated(ids: list[str]) -> int | None:
    import pandas as pd

    found = np.flatnonzero(pd.Index(ids, dtype=object).duplicated())
    return int(found[0]) if len(found) else None


def numbers_of(table: Any, columns: tuple[str, ...], path: Path) -> np.ndarray:
    import pandas as pd

    features = np.empty((len(table), len(columns)), dtype=np.float32)
    for place, name in enumerate(columns):
        values = pd.to_numeric(table[name].str.strip(), errors="coerce").to_numpy(dtype=np.float64)
        with np.errstate(over="ignore"):
            features[:, place] = values
        wrong = np.flatnonzero(~np.isfinite(features[:, place]))
        if len(wrong):
            value = shown(table[name].iloc[int(wrong[0])])
            raise UserError(f"{path}, row {wrong[0] + 2}, column {shown(name)}: {value}: expected a finite number "
                            "(leave a column out with --ignore)")  # fmt: skip
    return features
