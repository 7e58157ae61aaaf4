"""Arrays from files that may be wrong: .npy, .npz and sparse matrices in them.

A header is compared with the size of its file before anything is allocated, objects are never unpickled, and the
indices of a sparse matrix are checked: its routines in C trust them.
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

KINDS = "biufSU"  # of numpy's types: numbers and texts of fixed width
DEFLATE = 1032  # no byte of a deflated file holds more than so many
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def load_npy(path: Path, mmap: bool = False) -> np.ndarray:
    """The array of a .npy file; raises ValueError for anything else, OSError where the file cannot be read."""
    with Path(path).open("rb") as file:
        shape = _checked_header(file, Path(path).stat().st_size)
    # an empty array cannot be mapped
    return np.load(path, mmap_mode="r" if mmap and 0 not in shape else None, allow_pickle=False)


class Arrays:
    """The arrays of a .npz file, read one by one; use in a `with` statement.

    Raises ValueError for what is no array or larger than its file can hold, KeyError for a missing one.
    """

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    def __enter__(self) -> Arrays:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> list[str]:
        return sorted(self._members)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._members:
            raise KeyError(f"no array {name}")
        member = self._members[name]
        if member.file_size > DEFLATE * (member.compress_size + 1):
            raise ValueError(f"{name}: {member.compress_size} bytes that claim to hold {member.file_size}")
        with self._zip.open(member) as file:
            _checked_header(file, member.file_size)
        with self._zip.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def sparse(self, prefix: str = "") -> sp.csr_matrix:
        """The matrix in CSR whose arrays are `prefix` + data, indices, indptr and shape."""
        data, indices, indptr = (self[prefix + part] for part in ("data", "indices", "indptr"))
        return checked_csr(data, indices, indptr, self[f"{prefix}shape"])

    def saved_matrix(self) -> sp.coo_matrix:
        """What scipy's save_npz wrote: CSR, or COO, whose ids are left to the caller to check."""
        form = str(self["format"].astype("U")) if "format" in self else ""
        if form == "csr":
            return self.sparse().tocoo()
        if form != "coo":
            raise ValueError(f"sparse format {form[:20]}: expected csr or coo")
        row, column, data = (self[part] for part in ("row", "col", "data"))
        rows, columns = shape_of(self["shape"])
        for ids, bound in ((row, rows), (column, columns)):
            if ids.ndim != 1 or len(ids) != len(np.atleast_1d(data)) or ids.dtype.kind not in "iu":
                raise ValueError("expected rows, columns and data of one length, rows and columns integers")
            if len(ids) and (ids.min() < 0 or ids.max() >= bound):
                raise ValueError(f"ids {ids.min()}..{ids.max()} instead of 0..{bound - 1}")
        return sp.coo_matrix((np.atleast_1d(data), (row, column)), shape=(rows, columns))


def checked_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_matrix:
    """A matrix in CSR of numbers; raises ValueError unless its parts agree."""
    parts = {"data": data, "indices": indices, "indptr": indptr}
    for name, part in parts.items():
        allowed = "biuf" if name == "data" else "iu"
        if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in allowed:
            raise ValueError(f"{name}: expected a vector of {'numbers' if name == 'data' else 'integers'}")
    rows, columns = shape_of(shape)
    if len(indptr) != rows + 1 or len(indices) != len(data):
        raise ValueError(f"{len(indptr)} pointers, {len(indices)} indices and {len(data)} values for {rows} rows")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr.astype(np.int64)) < 0).any():
        raise ValueError(f"pointers: expected them to ascend from 0 to {len(indices)}")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise ValueError(f"indices {indices.min()}..{indices.max()} instead of 0..{columns - 1}")
    return sp.csr_matrix((data, indices, indptr), shape=(rows, columns))


def shape_of(value: Any) -> tuple[int, int]:
    """(rows, columns), each below 2^31."""
    shape = np.asarray(value)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0 or shape.max() >= 1 << 31:
        raise ValueError("shape: expected two integers in 0..2^31 - 1")
    return int(shape[0]), int(shape[1])


def _checked_header(file: IO[bytes], size: int) -> tuple[int, ...]:
    """Shape of the array whose .npy form, of `size` bytes in all, begins here."""
    beginning = file.read(1 << 14)  # numpy admits headers of at most 10,000 characters
    content = io.BytesIO(beginning)
    version = np.lib.format.read_magic(content)
    if version not in _HEADERS:
        raise ValueError(f"version {version[0]}.{version[1]} of the format: expected 1.0 or 2.0")
    try:
        shape, _, dtype = _HEADERS[version](content)
    except (TypeError, RecursionError, MemoryError, SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"header: {type(error).__name__}") from None
    if dtype.kind not in KINDS or dtype.itemsize == 0 or any(length < 0 for length in shape):
        raise ValueError(f"an array of type {str(dtype)[:50]}: expected numbers or texts")
    needed = math.prod(shape) * dtype.itemsize
    if needed != size - content.tell():
        raise ValueError(f"shape {str(shape)[:50]} needs {needed} bytes, found {size - content.tell()}")
    return shape
