"""A table of texts from a file as people have it: any usual separator, comments, compressed or Parquet."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, meant, shown

# True: the cells are names of columns; False: they are data; None: they may be names
Judge = Callable[[Sequence[str]], bool | None]

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "pipes", ",": "commas", r"\s+": "blanks"}
TOP = re.compile(rb"(?:[ \t]*(?:[#%][^\r\n]*)?(?:\r\n|\r|\n))*")  # comments and empty lines
SEPARATOR_LINE = re.compile(rb"(?i)\"?sep=(.)\"?[ \t]*(?:\r\n|\r|\n)")  # as spreadsheets write it
HEAD = 1 << 16  # bytes that the separator is found in
PACKED = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ": lzma.decompress}
RAGGED = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")  # of pandas
OTHERS = {
    b"PK": "an archive or a workbook: save the sheet as CSV",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
    b"%%MatrixMarket": "a matrix: read it with SciPy, and give it to dpgraph.fit in Python",
    b"{": "JSON: expected a table, one edge or node in a row",
    b"[": "JSON: expected a table, one edge or node in a row",
    b"<": "XML: expected a table, one edge or node in a row",
    b"ARROW1": "Feather: save it as Parquet or CSV",
    b"\x80": "a pickle: save it as Parquet or CSV",
    b"\x89HDF": "HDF5: save it as Parquet or CSV",
    b"\x93NUMPY": "an array: give it to dpgraph.fit in Python",
    b"SQLite format 3": "a data base: save its tables as CSV",
}


@dataclass(frozen=True, eq=False)
class FileTable:
    """Rows of a file. A column without a name is called by its place: `Unnamed: 0`, or without a header `column 1`."""

    path: Path
    columns: dict[str, Any]  # pandas Series of texts, or of floats where Parquet has them
    first: int  # number of the first row, as an editor counts lines
    header: bool
    form: str  # how it was read, in words
    comments: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def texts(self, name: str, option: str) -> list[str]:
        """Return the cells of a column without blanks around them. Raises UserError where there is no such column."""
        if name not in self.columns:
            known = ", ".join(map(shown, self.names[:20]))
            raise UserError(f"{self.path}: no column {shown(name)} ({option}): it has {known}{meant(name, self.names)}")
        return texts_of(self.columns[name])

    @cached_property
    def empty(self) -> set[str]:
        """Return the names of columns of which every cell is empty, such as one after a separator at a line's end."""
        return {name for name, column in self.columns.items() if column.dtype != float and not (column != "").any()}


def texts_of(column: Any) -> list[str]:
    import pyarrow as pa

    if column.dtype == float:
        return pa.array(column, from_pandas=True).cast(pa.string()).fill_null("").to_pylist()  # type: ignore[no-any-return]
    return column.str.strip().tolist()  # type: ignore[no-any-return]


def read_table(path: Path, judge: Judge) -> FileTable:
    """Return the cells of a file. `judge` says of cells of the first row, or of a comment before it, if they are names.

    Raises UserError that names the file and, where one is wrong, the row.
    """
    path = Path(path)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise UserError(f"{path}: {what}: expected a table, such as a CSV file")
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PAR1":
                return _parquet(path)
        return _lines(path, _unpacked(path.read_bytes()), judge)
    except (ValueError, csv.Error, OverflowError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        ragged = RAGGED.search(str(error))
        if ragged:
            raise UserError(f"{path}, row {ragged[2]}: {ragged[3]} cells: expected {ragged[1]}, as in the first row "
                            "(of tables of R and pandas: write no names of rows)") from None  # fmt: skip
        raise UserError(f"{path}: expected a CSV file in UTF-8, or Parquet: {error}") from None


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _unpacked(data: bytes) -> bytes:
    for magic, unpack in PACKED.items():
        if data.startswith(magic):
            data = unpack(data)
    for magic, what in OTHERS.items():
        if data.startswith(magic):
            raise ValueError(f"this is {what}")
    return data.removeprefix(b"\xef\xbb\xbf")


def _lines(path: Path, data: bytes, judge: Judge) -> FileTable:
    import pandas as pd

    stated = SEPARATOR_LINE.match(data)
    top = TOP.match(data, stated.end() if stated else 0)
    begin = top.end() if top else 0
    above = re.split(r"\r\n|\r|\n", data[:begin].decode("utf-8", "replace"))[:-1]
    comments = [line for line in above if line.lstrip().startswith(("#", "%"))]
    if comments and begin == len(data):
        raise ValueError("each row begins with # or %, as comments do: write source,target in the first one")
    head = data[begin : begin + HEAD].decode("utf-8", "replace")
    separator = stated[1].decode("latin-1") if stated else _separator(head, len(data) > begin + HEAD)
    frame = pd.read_csv(
        io.BytesIO(data), sep=separator, header=None, dtype=str, keep_default_na=False, skipinitialspace=True,
        skiprows=len(above),
    ).fillna("")  # fmt: skip
    if b'"' in data and max(data.count(b"\n", begin), data.count(b"\r", begin)) > len(frame):
        _check_quotes(frame, separator)
    whole = _whole_rows(data[begin:], separator, frame)
    later, filled = _comments_and_filled(frame, whole)
    comments += frame[0][later].tolist()
    short = np.flatnonzero(~whole & ~later & filled)
    if len(short):
        raise UserError(f"{path}, row {len(above) + 1 + short[0]}: too few cells: expected {frame.shape[1]}, as in the "
                        "first row")  # fmt: skip
    frame = frame[~later & filled].reset_index(drop=True)
    cells = [cell.strip() for cell in frame.iloc[0].tolist()]
    said = _cells(comments[-1].lstrip("#% \t"), separator) if comments else []
    known = judge(cells)
    header = known is not False
    if known is not True and len(said) == len(cells) and judge(said):
        header, names = False, said
    else:
        names = cells if header else [f"column {place + 1}" for place in range(len(cells))]
    names = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
    if len(set(names)) < len(names):
        doubled = next(name for place, name in enumerate(names) if name in names[:place])
        raise UserError(f"{path}: column {shown(doubled)} twice: expected each name once")
    if header:
        frame = frame.iloc[1:].reset_index(drop=True)
    form = f"{SEPARATORS.get(separator, shown(separator))} between cells"
    form += ("" if header else ", no header") + (f", {len(comments)} comments left out" if comments else "")
    columns = {name: frame[place] for place, name in enumerate(names)}
    return FileTable(path, columns, len(above) + 1 + header, header, form, len(comments))


def _check_quotes(frame: Any, separator: str) -> None:
    """Raise ValueError for a cell that has taken in whole rows, from an unclosed quote to the next one."""
    between = re.escape(separator) if len(separator) == 1 else r"[ \t]+"
    for place in frame if frame.shape[1] > 1 else ():
        lines = frame[place].str.count(r"\r\n|\r|\n")
        broken = frame[place][lines > 0]
        taken = np.flatnonzero(broken.str.count(between) == lines[lines > 0] * (frame.shape[1] - 1))
        if len(taken):
            raise ValueError(f"{shown(broken.iloc[taken[0]][:40])}: a quote that opens a cell, and whole rows after it:"
                             " double it within quotes, or leave it out")  # fmt: skip


def _whole_rows(data: bytes, separator: str, frame: Any) -> np.ndarray:
    """Return whether each row has all of its cells; pandas fills up those that end too early."""
    if not (frame.iloc[:, -1] == "").any():
        return np.ones(len(frame), dtype=bool)
    lines = filter(str.strip, io.StringIO(data.decode(), newline=""))
    rows = csv.reader(lines, delimiter=separator) if len(separator) == 1 else map(str.split, lines)
    widths = np.fromiter(map(len, rows), dtype=np.int64)
    if len(widths) != len(frame):
        raise ValueError("quotes within a cell, or lines without end")
    return widths >= frame.shape[1]


def _comments_and_filled(frame: Any, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows are comments, which have one cell, and which are no empty rows at the end."""
    filled = (frame != "").any(axis=1).to_numpy()
    end = int(np.flatnonzero(filled)[-1]) + 1 if filled.any() else len(frame)
    alone = ~whole & (frame.iloc[:, 1:] == "").all(axis=1).to_numpy()
    return alone & frame[0].str.startswith(("#", "%")).to_numpy(dtype=bool), np.arange(len(frame)) < end


def _separator(head: str, cut: bool) -> str:
    """Return the one that gives all first rows as many cells, or else the first row the most."""
    most, best = 1, ","
    for separator in SEPARATORS:
        try:
            rows = list(csv.reader(io.StringIO(head, newline=""), delimiter=separator)) if len(separator) == 1 else [
                line.split() for line in head.splitlines()
            ]  # fmt: skip
        except csv.Error:
            continue
        widths = [len(row) for row in rows[: -1 if cut else None] if row]
        if len(set(widths)) == 1 and widths[0] > 1:
            return separator
        if widths and widths[0] > most and (separator != r"\s+" or most == 1):
            most, best = widths[0], separator
    return best


def _cells(line: str, separator: str) -> list[str]:
    cells = line.split(separator) if len(separator) == 1 else line.split()
    return [cell.strip() for cell in cells]


def _parquet(path: Path) -> FileTable:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
        columns = {}
        for index in (table.schema.pandas_metadata or {}).get("index_columns", ()):
            if isinstance(index, dict) and index.get("name"):  # consecutive ids are not written out
                numbers = range(index["start"], index["stop"], index["step"])
                columns[str(index["name"])] = pd.Series(list(map(str, numbers)), dtype=str)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_floating(column.type):
                found = pd.Series(column.to_numpy().astype(np.float64))
            elif pa.types.is_nested(column.type):
                found = pd.Series(["a list in a cell"] * len(column), dtype=str)
            else:
                found = pd.Series(column.cast(pa.string()).fill_null("").to_pylist(), dtype=str)
                if pa.types.is_boolean(column.type):
                    found = found.str.capitalize()  # True and False, as in CSV files and arrays
            columns[str(name)] = found
    except (pa.ArrowException, NotImplementedError) as error:
        raise ValueError(error) from None
    if not columns:
        raise ValueError("no column")
    return FileTable(path, columns, 1, True, "Parquet")
