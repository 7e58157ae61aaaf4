"""A table of texts from a file: CSV with any usual separator and comments on top, gzipped or not, or Parquet."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, meant, shown

Judge = Callable[[Sequence[str]], bool]  # tells whether the cells of the first row are names of columns

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "pipes", ",": "commas", " ": "blanks"}
COMMENTS = ("# ", "% ")  # with a blank: an id may be #love
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, eq=False)
class FileTable:
    """Rows of a file. A column without a name is called by its place: `Unnamed: 0`, or without a header `column 1`."""

    path: Path
    columns: dict[str, Any]  # pandas Series of texts, or of floats where Parquet has them
    first: int  # number of the first row, as an editor counts lines
    form: str  # how it was read, in words

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


def texts_of(column: Any) -> list[str]:
    import pyarrow as pa

    if column.dtype == float:
        return pa.array(column, from_pandas=True).cast(pa.string()).fill_null("").to_pylist()  # type: ignore[no-any-return]
    return column.str.strip().tolist()  # type: ignore[no-any-return]


def read_table(path: Path, has_names: Judge = lambda cells: True) -> FileTable:
    """Return the cells of a file; `has_names` judges its first row.

    Raises UserError that names the file and, where one is wrong, the row.
    """
    path = Path(path)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise UserError(f"{path}: {what}: expected a table, such as a CSV file")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
        return _parquet(path) if magic == b"PAR1" else _lines(path, magic.startswith(GZIP), has_names)
    except (ValueError, csv.Error, OverflowError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: expected a CSV file in UTF-8, or Parquet: {error}") from None


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _lines(path: Path, packed: bool, has_names: Judge) -> FileTable:
    import pandas as pd

    above, opened = 0, gzip.open if packed else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        head = file.readline()
        while head and (not head.strip() or head.startswith(COMMENTS)):
            above, head = above + 1, file.readline()
        separator = next((one for one in SEPARATORS if one in head), " ")
        lines = map(str.strip, chain([head], file)) if separator == " " else chain([head], file)
        rows = list(filter(None, csv.reader(lines, delimiter=separator, skipinitialspace=True)))
    widths = np.fromiter(map(len, rows), dtype=np.int64)
    if not len(rows):
        raise ValueError("no row")
    wrong = np.flatnonzero(widths != widths[0])
    if len(wrong):
        raise UserError(f"{path}, row {above + 1 + wrong[0]}: {widths[wrong[0]]} cells: expected {widths[0]}, as in "
                        "the first row (of tables of R and pandas: write no names of rows)")  # fmt: skip
    cells = [cell.strip() for cell in rows[0]]
    header = has_names(cells)
    names = [name or f"Unnamed: {place}" if header else f"column {place + 1}" for place, name in enumerate(cells)]
    if len(set(names)) < len(names):
        doubled = next(name for place, name in enumerate(names) if name in names[:place])
        raise UserError(f"{path}: column {shown(doubled)} twice: expected each name once")
    columns = np.array(rows, dtype=object)[int(header) :].T
    form = f"{SEPARATORS[separator]} between cells" + ("" if header else ", no header")
    table = {name: pd.Series(column, dtype=str) for name, column in zip(names, columns, strict=True)}
    return FileTable(path, table, above + 1 + header, form)


def _parquet(path: Path) -> FileTable:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    try:
        table = pq.ParquetFile(path).read()
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_floating(column.type):
                found = pd.Series(column.to_numpy().astype(np.float64))
            else:
                found = pd.Series(column.cast(pa.string()).fill_null("").to_pylist(), dtype=str)
            # truth values are written as in CSV files
            columns[str(name)] = found.str.capitalize() if pa.types.is_boolean(column.type) else found
    except (pa.ArrowException, NotImplementedError) as error:
        raise ValueError(error) from None
    if not columns:
        raise ValueError("no column")
    return FileTable(path, columns, 1, "Parquet")
