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


def checked_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_matrix:
    """Return a matrix in CSR of numbers; raises ValueError unless its parts agree."""
    matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(int(one) for one in shape))
    matrix.check_format(full_check=True)
    if matrix.dtype.kind not in "biuf" or (np.diff(matrix.indptr) < 0).any():  # scipy looks at no empty matrix's
        raise ValueError("expected numbers, and pointers that ascend")
    return matrix
