"""Graphs as arrays: edges, labels, features and roles by their names, in memory or in .npz files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, invalid, shown
from dpgraph.data.readers import DAMAGE
from dpgraph.own_graph.graph import MOST_NUMBERS, OwnGraph, split_of
from dpgraph.own_graph.labels import label_texts, read_labels

EDGES: dict[str, tuple[str, ...]] = {
    "edge_index": ("edge_index",),
    "edges": ("edges", "edge_list"),
    "adj": ("adj", "adjacency", "adj_matrix"),
    "adj_t": ("adj_t",),
}
NAMES: dict[str, tuple[str, ...]] = EDGES | {
    "x": ("x", "features", "feat", "node_feat", "node_features", "attr", "attr_matrix"),
    "y": ("y", "labels", "label", "node_labels", "node_label", "target"),
    "split": ("split",),
    "directed": ("directed",),
    "num_nodes": ("num_nodes",),
}
NOT_READ = re.compile(r"edge_(weights?|attr|feat)|\w*_names|metadata")  # known, and of no use here
PARTS = re.compile(r"(adj|attr)(?:_matrix)?[._](data|indices|indptr|shape)")  # of a sparse matrix in a .npz file
BATCH = ("batch", "ptr")  # of PyTorch Geometric, also in a batch of one graph
NAMED = 8  # names of what was not read, in a line
EXPECTED = (
    "edge_index (2, E), edges (E, 2), adj (N, N) or adj_data, adj_indices, adj_indptr, adj_shape; y (N,); and x "
    "(N, F), split (N,), train_mask, val_mask, test_mask, directed"
)


def arrays_of(path: Path, known: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return all arrays of a .npz file, of these names alone. Raises UserError for anything else, such as a pickle."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected arrays {', '.join(known) if known else EXPECTED}")
    arrays, name = {}, ""
    try:
        with np.load(path, allow_pickle=False) as file:
            for name in file.files:
                arrays[name] = file[name]
    except (*DAMAGE, SyntaxError) as error:
        why = f"array {shown(name)}: {type(error).__name__}" if name else type(error).__name__
        others = "" if known or path.suffix == ".npz" else ", or a .graphml file (--graph): NetworkX reads others"
        raise UserError(f"{path}: expected a .npz file without pickles{others}: {why}") from None
    for name in arrays:
        if known and name not in known:
            raise invalid(f"{path}: array", name, f"one of {', '.join(known)}")
    return arrays


def read_npz(path: Path, classes: Sequence[str] | None = None) -> OwnGraph:
    """Read a graph from a .npz file without pickles; `NAMES` lists what its arrays may be called."""
    path = Path(path)
    return replace(from_named(arrays_of(path), where=str(path), strict=True, classes=classes), files=(path,))


def from_named(
    given: Mapping[Any, Any],
    *,
    where: str,
    strict: bool,
    classes: Sequence[str] | None = None,
    split: Any = None,
    directed: bool | None = None,
) -> OwnGraph:
    """Return the graph of these arrays. An unknown name is refused if `strict`, else said not to be read."""
    values = {name: value for name, value in _joined_parts(given, where).items() if value is not None}
    found = _found(values, where)
    masks = {name: as_array(value, f"{where}: {name}") for name, value in values.items() if MASK.fullmatch(name)}
    extra = [name for name in values if name not in found.values() and name not in masks]
    for name in extra:
        if strict and not NOT_READ.fullmatch(name):
            raise UserError(f"{where}: array {shown(name)}: expected {EXPECTED}")
    here = ", ".join(map(shown, values))
    by, *others = [role for role in found if role in EDGES] or [""]
    if not by:
        raise UserError(f"{where}: no edges: expected edge_index (2, E), edges (E, 2), adj or adj_t: it has {here}")
    if "y" not in found:
        raise UserError(f"{where}: no y: expected a label for each node, -1 for none: it has {here}")
    if strict and others:
        raise UserError(f"{where}: {found[by]} and {found[others[0]]}: expected one of them")
    if split is None and "split" in found and masks:
        raise UserError(f"{where}: split and {next(iter(masks))}: expected one of them, or split= in their place")
    y = label_column(values[found["y"]], where)
    for role in ("num_nodes", "directed"):
        if role in found and ((one := as_array(values[role], where)).shape != () or one.dtype.kind not in "biu"):
            raise UserError(f"{where}: {role} of shape {one.shape}, type {one.dtype}: expected one whole number")
    if "num_nodes" in found and int(values["num_nodes"]) != len(y):
        raise UserError(f"{where}: num_nodes={shown(int(values['num_nodes']))}, y of {len(y)}: expected a label for "
                        "each node, -1 for none")  # fmt: skip
    at = f"{where}: {found[by]}"
    edges, weighted = values[found[by]], False
    if by in ("adj", "adj_t"):
        edges, weighted = matrix_ends(edges, len(y), at)
        edges = edges[::-1] if by == "adj_t" else edges
    elif by == "edges":
        edges = pairs(as_array(edges, at), at)
    roles = "split="
    if split is None:
        roles = "split" if "split" in found else ", ".join(masks) or "none"
        split = values["split"] if "split" in found else mask_roles(masks, len(y), where)
    if directed is None:
        directed = "directed" in found and bool(values["directed"])
    not_read = [*(name for name in extra if name not in BATCH), *(found[role] for role in others)]
    not_read += [f"weights of {found[by]}"] if weighted else []
    read = {"edges": found[by], "label": found["y"], "features": found.get("x", "none"), "split": roles}
    return from_arrays(edges, y, values[found["x"]] if "x" in found else None, split, classes=classes,
                       directed=directed, where=where, read=in_words(read, not_read))  # fmt: skip


def in_words(read: Mapping[str, str], not_read: Sequence[str]) -> tuple[str]:
    """Return the line that says how a graph was read; long lists are cut."""
    left = [shown(name) for name in not_read[:NAMED]] + [f"{len(not_read) - NAMED} more"] * (len(not_read) > NAMED)
    parts = [f"{what}: {shown(name)}" for what, name in read.items()]
    return ("; ".join([*parts, f"not read: {', '.join(left)}"] if left else parts),)


def _found(values: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the name of each role that there is."""
    found = {}
    for role, names in NAMES.items():
        there = [name for name in names if name in values]
        if len(there) > 1:
            raise UserError(f"{where}: {' and '.join(there)}: expected one of them")
        if there:
            found[role] = there[0]
    return found


def _joined_parts(given: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Return `given` with the parts of a sparse matrix, such as adj_data and adj_indices, as one matrix."""
    import scipy.sparse as sp

    values = {str(name): value for name, value in given.items()}
    parts: dict[str, dict[str, str]] = {}
    for name in values:
        found = PARTS.fullmatch(name)
        if found:
            parts.setdefault(found[1], {})[found[2]] = name
    for name, of in parts.items():
        if len(of) < 4:
            raise UserError(f"{where}: {', '.join(of.values())}: expected {name}_data, {name}_indices, {name}_indptr "
                            f"and {name}_shape")  # fmt: skip
        data, indices, indptr, shape = (values.pop(of[part]) for part in ("data", "indices", "indptr", "shape"))
        try:
            matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(int(one) for one in shape))
            matrix.check_format(full_check=True)  # indices out of range would be read beyond the array
        except DAMAGE as error:
            raise UserError(f"{where}: {name}_data: expected a sparse matrix: {error}") from None
        values[name] = matrix
    return values


def from_arrays(
    edge_index: Any,
    labels: Any,
    features: Any = None,
    split: Any = None,
    *,
    classes: Sequence[str] | None = None,
    directed: bool = False,
    ids: Sequence[str] | None = None,
    where: str = "graph",
    columns: Sequence[str] = (),
    read: tuple[str, ...] = (),
) -> OwnGraph:
    """Return the graph of arrays; labels are whole numbers (-1 or NaN: none) or texts ("", None or NaN: none)."""
    edges, y = as_array(edge_index, f"{where}: edge_index"), label_column(labels, where)
    if edges.ndim != 2 or edges.shape[0] != 2 or (edges.size and edges.dtype.kind not in "iu"):
        raise UserError(f"{where}: edge_index of shape {edges.shape}, type {edges.dtype}: expected integers (2, E): a "
                        "row of first ends and a row of second ends")  # fmt: skip
    if features is not None:
        columns = columns or _names_of(features)
        features = dense_rows(features, len(y), f"{where}: x")
    found = read_labels(label_texts(y, where), classes, where, first=0)
    roles = None if split is None else roles_of(split, len(y), where)
    return OwnGraph(
        tuple(map(str, ids)) if ids is not None else tuple(map(str, range(len(y)))),
        edges[0].astype(np.int64), edges[1].astype(np.int64), features, found.places, found.classes, roles, directed,
        tuple(columns), classes_given=classes is not None, where=where, read=read,
    )  # fmt: skip


def label_column(labels: Any, where: str) -> np.ndarray:
    """Return (N,) labels. Raises UserError for one label of a graph and for several of a node."""
    y = as_array(labels, f"{where}: y")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.reshape(-1)
    if y.ndim != 1 or y.dtype.kind not in "biufUO":
        several = " (of rows with a single 1: y.argmax(axis=1))" if y.ndim == 2 else ""
        raise UserError(f"{where}: y of shape {y.shape}, type {y.dtype}: expected a label for each node{several}")
    return y


def dense_rows(value: Any, size: int, what: str) -> np.ndarray:
    """Return (N, F) floats of an array, a tensor or a sparse matrix; its size is checked before it is made dense.

    Numbers that float32 may not have stay float64, for ranges.
    """
    if not hasattr(value, "shape"):
        value = as_array(value, what)
    shape = tuple(map(int, value.shape))
    if len(shape) != 2 or shape[0] != size:
        raise UserError(f"{what} of shape {shape}, y of {size}: expected a row of numbers and a label for each node")
    if math.prod(shape) > MOST_NUMBERS:
        raise UserError(f"{what} of shape {shape}: {math.prod(shape)} numbers: expected at most {MOST_NUMBERS} in all: "
                        "leave columns out")  # fmt: skip
    try:
        rows = as_array(value.toarray() if hasattr(value, "toarray") else value, what)
        if rows.dtype.kind not in "biuf":
            raise UserError(f"{what} of type {rows.dtype}: expected numbers")
        kind = np.result_type(rows.dtype, np.float32)
        return rows.astype(kind if kind == np.float32 else np.float64)
    except MemoryError:
        raise UserError(f"{what} of shape {shape}: too little memory: leave columns out") from None


def _names_of(features: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame, if they are texts and distinct."""
    names = tuple(getattr(features, "columns", ()))
    return names if all(isinstance(name, str) for name in names) and len(set(names)) == len(names) else ()


def matrix_ends(matrix: Any, size: int, where: str) -> tuple[np.ndarray, bool]:
    """Return (2, E) rows and columns of entries that are not 0, and whether one of them is not 1.

    `matrix`: of SciPy, a tensor, a SparseTensor of torch_sparse, or an array. A zero that is stored is no edge.
    """
    if not is_sparse(matrix):
        matrix = as_array(matrix, where)
        if matrix.dtype.kind not in "biuf":
            raise UserError(f"{where} of type {matrix.dtype}: expected a square matrix of numbers")
    shape = tuple(map(int, matrix.sparse_sizes() if hasattr(matrix, "sparse_sizes") else matrix.shape))
    if shape != (size, size):
        raise UserError(f"{where} of shape {shape}, y of {size}: expected a square matrix with a row and a label for "
                        "each node")  # fmt: skip
    if hasattr(matrix, "sparse_sizes"):  # of torch_sparse
        row, column, weights = matrix.coo()
    elif hasattr(matrix, "tocoo"):
        matrix = matrix.tocoo()
        row, column, weights = matrix.row, matrix.col, matrix.data
    elif is_tensor(matrix):
        matrix = matrix.detach().cpu().to_sparse_coo()
        (row, column), weights = matrix._indices(), matrix._values()
    else:
        row, column = np.nonzero(matrix)
        weights = matrix[row, column]
    ends = np.stack([as_array(row, where), as_array(column, where)])
    if weights is None:
        return ends, False
    weights = as_array(weights, where)
    if weights.dtype.kind == "f" and not np.isfinite(weights).all():
        raise UserError(f"{where}: nan or inf in the matrix: expected finite numbers, and 0 for no edge")
    return ends[:, weights != 0], bool(((weights != 0) & (weights != 1)).any())


def pairs(edges: np.ndarray, where: str) -> np.ndarray:
    """Return (2, E) ends of (2, E) or (E, 2) ones. Raises UserError for (2, 2), which may be either."""
    if edges.ndim != 2 or 2 not in edges.shape:
        raise UserError(f"{where} of shape {edges.shape}: expected (2, E), or (E, 2) with an edge in each row, or a "
                        "square matrix with as many rows as labels")  # fmt: skip
    if edges.shape == (2, 2):
        raise UserError(f"{where} of shape (2, 2): a row may be an edge, or all first ends: expected a SciPy matrix, "
                        "or {'edge_index': array (2, E), 'y': labels}")  # fmt: skip
    return edges if edges.shape[0] == 2 else edges.T


def roles_of(split: Any, size: int, where: str) -> np.ndarray:
    """Return (N,) roles: of a name for each node, or of masks or indices of train, val and test."""
    if isinstance(split, Mapping):
        given = {str(name): as_array(value, f"{where}: split") for name, value in split.items()}
        split = mask_roles(given, size, f"{where}: split")
        if split is None:
            raise UserError(f"{where}: split: expected train, val or test in it")
    parts = as_array(split, f"{where}: split").reshape(-1)
    if len(parts) != size:
        raise UserError(f"{where}: split of {len(parts)}: expected a role for each of {size}")
    return split_of([str(one) for one in parts.tolist()], where, first=0)


def is_tensor(value: Any) -> bool:
    """Return whether it is a tensor of PyTorch, dense or sparse."""
    return hasattr(value, "layout") and hasattr(value, "detach")


def is_sparse(value: Any) -> bool:
    """Return whether it is a sparse matrix of SciPy, PyTorch or torch_sparse."""
    if hasattr(value, "tocoo") or hasattr(value, "sparse_sizes"):
        return True
    return is_tensor(value) and str(value.layout) != "torch.strided"


def as_array(value: Any, what: str) -> np.ndarray:
    """Return a tensor on any device, or anything else that NumPy takes, as an array."""
    try:
        if np.ma.is_masked(value):
            raise UserError(f"{what}: masked cells: expected numbers, such as those of filled(0), or no such column")
        if not is_tensor(value):
            return np.asarray(value)
        value = value.detach().cpu()
        if value.is_floating_point() and value.element_size() < 4:  # NumPy has no bfloat16
            value = value.float()
        return np.asarray(value.numpy() if str(value.layout) == "torch.strided" else value.to_dense().numpy())
    except (ValueError, TypeError, LookupError, OverflowError, RuntimeError):  # rows of several lengths, no data
        raise UserError(f"{what}: expected an array") from None


MASK = re.compile(r"(train|val|valid|validation|dev|test)_?(masks?|idx|index|indices|ids?)")
ROLES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test"}


def mask_roles(given: Mapping[str, np.ndarray], size: int, where: str) -> np.ndarray | None:
    """Return the name of the role of each node; None without masks.

    `given`: such as train_mask, valid_idx or (in a split of its own) test. A node in none of them is held out, or
    trains if there is no training mask. Raises UserError for several splits, an overlap, and all that is no mask.
    """
    masks: dict[str, np.ndarray] = {}
    for name, value in given.items():
        found = MASK.fullmatch(name)
        role = ROLES.get(found[1] if found else name)
        if role is None:
            raise UserError(f"{where}.{name}: expected train, val or test")
        if role in masks:
            raise UserError(f"{where}.{name}: {role} again: expected one mask of it")
        masks[role] = _mask(value, found[2] if found else "", size, f"{where}.{name}")
    if not masks:
        return None
    twice = np.flatnonzero(np.sum([*masks.values()], axis=0) > 1)
    if len(twice):
        both = " and ".join(role for role, mask in masks.items() if mask[twice[0]])
        raise UserError(f"{where}: node {twice[0]} is in {both}: expected one role of each node (split= states them)")
    return np.select([*masks.values()], [*masks], default="test" if "train" in masks else "train")


def _mask(array: np.ndarray, kind: str, size: int, what: str) -> np.ndarray:
    """Return (N,) bool of a mask, or of the indices of nodes."""
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim == 2:
        several = array.shape[1] if array.shape[0] == size else array.shape[0]
        raise UserError(f"{what}: {several} splits: expected one, or split= with a role for each node")
    if kind.startswith("mask") or array.dtype.kind == "b":
        if array.shape == (size,) and array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all():
            return array == 1
        raise UserError(f"{what} of shape {array.shape}, type {array.dtype}: expected true or false for each of {size} "
                        "nodes (of indices: split={'train': indices})")  # fmt: skip
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < size):
        raise UserError(f"{what} of shape {array.shape}, type {array.dtype}: expected indices of nodes, 0..{size - 1}")
    if len(np.unique(array)) < len(array):
        raise UserError(f"{what}: a node again: expected the index of each node once")
    mask = np.zeros(size, dtype=bool)
    mask[array.astype(np.int64)] = True
    return mask
