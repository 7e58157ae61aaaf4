"""Arrays from files that may be wrong: .npy files, and sparse matrices in .npz files.

Objects are never unpickled, and the indices of a sparse matrix are checked: its routines in C trust them.
"""

from __future__ import annotations

import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


def load_npy(path: Path, mmap: bool = False) -> np.ndarray:
    """Return the array of a .npy file; raises ValueError for anything else, OSError where the file cannot be read."""
    try:
        if mmap:
            return np.lib.format.open_memmap(path, mode="r")
        with Path(path).open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (TypeError, RuntimeError, MemoryError, SyntaxError, tokenize.TokenError):
        raise ValueError("a header that cannot be right") from None


def sparse(arrays: Mapping[str, np.ndarray], prefix: str = "") -> sp.csr_matrix:
    """Return the matrix in CSR whose arrays are `prefix` + data, indices, indptr and shape."""
    return checked_csr(*(arrays[prefix + part] for part in ("data", "indices", "indptr", "shape")))


def saved_matrix(arrays: Mapping[str, np.ndarray]) -> sp.coo_matrix:
    """Return the matrix that scipy's save_npz wrote, in CSR or COO."""
    form = str(arrays["format"].astype("U")) if "format" in arrays else ""
    if form == "csr":
        return sparse(arrays).tocoo()
    if form != "coo":
        raise ValueError(f"sparse format {form[:20]}: expected csr or coo")
    row, column, data = (arrays[part] for part in ("row", "col", "data"))
    rows, columns = shape_of(arrays["shape"])
    for ids, bound in ((row, rows), (column, columns)):
        if ids.ndim != 1 or len(ids) != len(np.atleast_1d(data)) or ids.dtype.kind not in "iu":
            raise ValueError("expected rows, columns and data of one length, rows and columns integers")
        if len(ids) and (ids.min() < 0 or ids.max() >= bound):
            raise ValueError(f"ids {ids.min()}..{ids.max()} instead of 0..{bound - 1}")
    return sp.coo_matrix((np.atleast_1d(data), (row, column)), shape=(rows, columns))


def checked_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_matrix:
    """Return a matrix in CSR of numbers; raises ValueError unless its parts agree."""
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
    """Return (rows, columns), each below 2^31."""
    shape = np.asarray(value)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0 or shape.max() >= 1 << 31:
        raise ValueError("shape: expected two integers in 0..2^31 - 1")
    return int(shape[0]), int(shape[1])
