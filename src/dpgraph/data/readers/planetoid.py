"""Planetoid's pickles (Yang et al., 2016): Cora, CiteSeer, PubMed.

`allx`, `ally` are all nodes but the test nodes, of which the first `len(y)` are the public training nodes and the next
500 the public validation nodes; `tx`, `ty` are the test nodes in the order of `test.index`; `graph` maps a node to the
list of its neighbours.
"""

from __future__ import annotations

import io
import pickle
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgraph.data.arrays import checked_csr
from dpgraph.data.raw_graph import RawGraph, split_array
from dpgraph.data.readers import reading

VALIDATION_NODES = 500
MATRIX = ("scipy.sparse.csr", "csr_matrix")


def _array(*_: Any) -> np.ndarray:
    """Return an empty array, which its state fills; a shape that a file names would be allocated unchecked."""
    return np.empty(0, dtype=np.int8)


def _mapping(*_: Any) -> dict[Any, Any]:
    """Return a defaultdict's content without its factory."""
    return {}


# What takes the place of the types that Planetoid's files name; those that are only named are never called.
_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): None,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("collections", "defaultdict"): _mapping,
    ("__builtin__", "list"): None,
    ("builtins", "list"): None,
}


class ArrayUnpickler(pickle._Unpickler):  # type: ignore[name-defined]
    """An unpickler that admits only the types of Planetoid's files: a pickle from the net may not run code.

    The unpickler written in Python: the one in C allocates as much memory as a few bytes of a file request.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        # a class of this file's own, since a pickle may set attributes of a class
        self.matrix = type("Matrix", (), {})

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == MATRIX:
            return self.matrix
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"type {module}.{name} is not admitted") from None


def read(raw_dir: Path, name: str, isolated_label: int = 0) -> RawGraph:
    """Read `ind.<name>.*`.

    Test ids that `test.index` skips (15 in CiteSeer) have no features and no label: they get zeros and
    `isolated_label` (-1: no label), and belong to no official split.
    """
    tx, allx = (_matrix(raw_dir / f"ind.{name}.{part}") for part in ("tx", "allx"))
    y, ty, ally = (_one_hot(raw_dir / f"ind.{name}.{part}") for part in ("y", "ty", "ally"))
    source, target = _edges(raw_dir / f"ind.{name}.graph")
    with reading(raw_dir / f"ind.{name}.test.index") as path:
        test = np.loadtxt(path, dtype=np.int64, ndmin=1)
        if test.ndim != 1 or not len(test):
            raise ValueError("expected a test id in each line")
        first, count = int(test.min()), int(test.max()) + 1
        if first != allx.shape[0] or len(test) != tx.shape[0] or len(np.unique(test)) != len(test):
            raise ValueError(f"{len(test)} test ids from {first}, for {tx.shape[0]} rows after {allx.shape[0]}")
        if count - first > 2 * len(test):
            raise ValueError(f"test ids {first}..{count - 1} for {len(test)} rows: more than half of them are missing")
        if len(ally) != first or len(ty) != len(test) or len(y) + VALIDATION_NODES > first:
            raise ValueError(f"{len(y)}, {len(ally)} and {len(ty)} labels for {first} and {len(test)} rows")
        known = np.concatenate([np.arange(first), test])
        features = sp.csr_matrix(sp.vstack([allx, tx], format="csr", dtype=np.float32)[_positions(known, count)])
        features = sp.csr_matrix(sp.diags(_mask(known, count).astype(np.float32)) @ features)
        features.eliminate_zeros()
        labels = np.full(count, isolated_label, dtype=np.int64)
        labels[known] = np.concatenate([ally.argmax(axis=1), ty.argmax(axis=1)])
        validation = np.arange(len(y), len(y) + VALIDATION_NODES)
        split = split_array(count, np.arange(len(y)), validation, test)
    return RawGraph(
        source, target, features, labels, split, directed=False, meta={"isolated_test_nodes": count - len(known)}
    )


def _matrix(path: Path) -> sp.csr_matrix:
    with reading(path):
        parts = vars(_load(path))
        return checked_csr(parts["data"], parts["indices"], parts["indptr"], parts["_shape"])


def _one_hot(path: Path) -> np.ndarray:
    """Return (n, classes) numbers."""
    with reading(path):
        matrix = _load(path)
        if (
            not isinstance(matrix, np.ndarray)
            or matrix.ndim != 2
            or matrix.dtype.kind not in "biuf"
            or not matrix.shape[1]
        ):
            raise ValueError("expected a matrix with a column per class")
        return matrix


def _edges(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return sources and targets (E,) int64."""
    with reading(path):
        graph = _load(path)
        if not isinstance(graph, dict) or not all(isinstance(one, list) for one in graph.values()):
            raise ValueError("expected lists of neighbours by node")
        degrees = [len(neighbours) for neighbours in graph.values()]
        if sum(degrees) > path.stat().st_size:
            raise ValueError(f"{sum(degrees)} neighbours in a file of {path.stat().st_size} bytes")
        ids = [list(part) for part in (graph, chain.from_iterable(graph.values()))]
        if any(set(map(type, part)) - {int} for part in ids):
            raise ValueError("expected integers as nodes")
        nodes, target = (np.array(part, dtype=np.int64) for part in ids)
        return np.repeat(nodes, degrees), target


def _load(path: Path) -> Any:
    return ArrayUnpickler(path.read_bytes()).load()


def _positions(known: np.ndarray, count: int) -> np.ndarray:
    """Return (count,) row of each node in the stacked matrix; 0 for nodes without a row."""
    rows = np.zeros(count, dtype=np.int64)
    rows[known] = np.arange(len(known))
    return rows


def _mask(ids: np.ndarray, count: int) -> np.ndarray:
    mask = np.zeros(count, dtype=bool)
    mask[ids] = True
    return mask
