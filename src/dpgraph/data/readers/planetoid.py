"""Planetoid's pickles (Yang et al., 2016): Cora, CiteSeer, PubMed.

`allx`, `ally` are all nodes but the test nodes, of which the first `len(y)` are the public training nodes and the next
500 the public validation nodes; `tx`, `ty` are the test nodes in the order of `test.index`; `graph` maps a node to the
list of its neighbours.
"""

from __future__ import annotations

import collections
import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgraph.data.raw_graph import RawGraph, split_array
from dpgraph.data.readers import existing, malformed

VALIDATION_NODES = 500
_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class ArrayUnpickler(pickle.Unpickler):
    """Admits the types of Planetoid's files and nothing else: a pickle from the net may not run code."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"type {module}.{name} is not admitted") from None


def read(raw_dir: Path, name: str, isolated_label: int = 0) -> RawGraph:
    """Reads `ind.<name>.*`.

    Test ids that `test.index` skips (15 in CiteSeer) have no features and no label: they get zeros and
    `isolated_label` (-1: no label), and belong to no official split.
    """
    tx, allx, y, ty, ally, graph = (
        _load(raw_dir / f"ind.{name}.{part}") for part in ("tx", "allx", "y", "ty", "ally", "graph")
    )
    index_path = existing(raw_dir / f"ind.{name}.test.index")
    try:
        test = np.loadtxt(index_path, dtype=np.int64, ndmin=1)
        first, count = int(test.min()), int(test.max()) + 1
        if first != allx.shape[0] or len(test) != tx.shape[0] or len(np.unique(test)) != len(test):
            raise ValueError(f"{len(test)} test ids from {first}, for {tx.shape[0]} rows after {allx.shape[0]}")
        known = np.concatenate([np.arange(first), test])
        features = sp.csr_matrix(
            sp.vstack([sp.csr_matrix(allx), sp.csr_matrix(tx)], format="csr", dtype=np.float32)[
                _positions(known, count)
            ]
        )
        features = sp.csr_matrix(sp.diags(_mask(known, count).astype(np.float32)) @ features)
        features.eliminate_zeros()
        labels = np.full(count, isolated_label, dtype=np.int64)
        labels[known] = np.concatenate([ally.argmax(axis=1), ty.argmax(axis=1)])
        degrees = [len(neighbours) for neighbours in graph.values()]
        source = np.repeat(np.fromiter(graph.keys(), dtype=np.int64, count=len(graph)), degrees)
        target = np.fromiter(chain.from_iterable(graph.values()), dtype=np.int64, count=sum(degrees))
        train = np.arange(len(y))
        split = split_array(count, train, np.arange(len(y), len(y) + VALIDATION_NODES), test)
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        raise malformed(index_path, error) from None
    return RawGraph(
        source,
        target,
        features,
        labels,
        split,
        directed=False,
        meta={"isolated_test_nodes": count - len(known)},
    )


def _load(path: Path) -> Any:
    with existing(path).open("rb") as file:
        try:
            return ArrayUnpickler(file, encoding="latin1").load()
        except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
            raise malformed(path, error) from None


def _positions(known: np.ndarray, count: int) -> np.ndarray:
    """(count,) row of each node in the stacked matrix; 0 for nodes without a row."""
    rows = np.zeros(count, dtype=np.int64)
    rows[known] = np.arange(len(known))
    return rows


def _mask(ids: np.ndarray, count: int) -> np.ndarray:
    mask = np.zeros(count, dtype=bool)
    mask[ids] = True
    return mask
