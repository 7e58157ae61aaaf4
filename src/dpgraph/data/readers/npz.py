"""One npz with a sparse adjacency and sparse attributes: Cora-ML, Coauthor-CS (Bojchevski & Günnemann; Shchur et al.).

Two key layouts are in use, `adj_matrix.*`, `attr_matrix.*` and `adj_*`, `attr_*`; both hold a CSR matrix.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import existing, malformed

LAYOUTS = (("adj_matrix.", "attr_matrix."), ("adj_", "attr_"))


def read(raw_dir: Path, file: str, directed: bool) -> RawGraph:
    path = existing(raw_dir / file)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            layout = next((pair for pair in LAYOUTS if f"{pair[0]}indptr" in arrays), None)
            if layout is None:
                raise ValueError(f"keys {', '.join(sorted(arrays.files))}")
            adjacency, attributes = (_csr(arrays, prefix) for prefix in layout)
            labels = arrays["labels"].astype(np.int64)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise malformed(path, error) from None
    edges = adjacency.tocoo()
    return RawGraph(edges.row, edges.col, attributes.astype(np.float32), labels, None, directed)


def _csr(arrays: np.lib.npyio.NpzFile, prefix: str) -> sp.csr_matrix:
    parts = tuple(arrays[prefix + part] for part in ("data", "indices", "indptr"))
    return sp.csr_matrix(parts, shape=tuple(arrays[f"{prefix}shape"]))
