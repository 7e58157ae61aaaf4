"""One npz with a sparse adjacency and sparse attributes: Cora-ML, Coauthor-CS (Bojchevski & Günnemann; Shchur et al.).

Two key layouts are in use, `adj_matrix.*`, `attr_matrix.*` and `adj_*`, `attr_*`; both hold a CSR matrix.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpgraph.data.arrays import sparse
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import reading

LAYOUTS = (("adj_matrix.", "attr_matrix."), ("adj_", "attr_"))


def read(raw_dir: Path, file: str, directed: bool) -> RawGraph:
    with reading(raw_dir / file) as path, np.load(path, allow_pickle=False) as arrays:
        layout = next((pair for pair in LAYOUTS if f"{pair[0]}indptr" in arrays), None)
        if layout is None:
            raise ValueError(f"keys {', '.join(arrays.files)}")
        adjacency, attributes = (sparse(arrays, prefix) for prefix in layout)
        edges = adjacency.tocoo()
        edges.eliminate_zeros()  # a stored zero is no edge
        return RawGraph(edges.row, edges.col, attributes.astype(np.float32), arrays["labels"], None, directed)
