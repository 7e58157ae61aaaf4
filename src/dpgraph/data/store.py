"""A graph on disk (stored.py), and the random split of a seed.

Seed s of a task with a random split trains and is tested on random split s: nodes in other parts and, where the setting
removes edges between parts, other edges. The stored split is that of seed 0. Official splits, and those by clusters,
are the same for all seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from dpgraph.core.errors import UserError, invalid
from dpgraph.data import stored
from dpgraph.data.adjacency import apply_setting, statistics
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES
from dpgraph.data.splits import drawn_split, is_drawn

SPLITS = [*SPLIT_NAMES.values(), NO_SPLIT]

Arrays = dict[str, np.ndarray]
Problem = tuple[str, str]  # name of the array, its defect


def first_problem(arrays: Arrays, num_classes: int, symmetric: bool) -> Problem | None:
    """Return the first thing wrong with a stored graph's arrays, or None. Samplers and Theorem 3 rest on it.

    Reads all but the features. The hash (`stored.read_arrays`) covers what was written; this protects what trusts it.
    """
    nodes = len(arrays["labels"])
    for name, array in arrays.items():
        if array.ndim != 1 + (name == "features") or (
            name in ("features", "split", "out_ptr", "in_ptr") and len(array) != nodes + name.endswith("_ptr")
        ):
            return name, "does not fit the other arrays of this graph"
    for side in ("out",) if symmetric else ("out", "in"):
        wrong = _of_lists(side, arrays[f"{side}_ptr"], arrays[f"{side}_idx"])
        if wrong is not None:
            return wrong
    labels, split = arrays["labels"], arrays["split"]
    if nodes and not -1 <= labels.min() <= labels.max() < num_classes:
        return "labels", f"labels {labels.min()}..{labels.max()}: expected -1 (none)..{num_classes - 1}"
    unknown = np.flatnonzero(~np.isin(split, SPLITS))
    if len(unknown):
        return "split", f"the split of node {unknown[0]} is {split[unknown[0]]}: expected one of {SPLITS}"
    return None


def _of_lists(side: str, ptr: np.ndarray, idx: np.ndarray) -> Problem | None:
    nodes = len(ptr) - 1
    if ptr[0] != 0 or ptr[-1] != len(idx) or (np.diff(ptr) < 0).any():
        return f"{side}_ptr", "does not fit the other arrays of this graph"
    if len(idx) and not 0 <= idx.min() <= idx.max() < nodes:
        ids = f"ids {idx.min()}..{idx.max()} instead of 0..{nodes - 1}"
        return f"{side}_idx", f"does not fit the other arrays of this graph: {ids}"
    lists = sp.csr_matrix((np.ones(len(idx), dtype=bool), idx, ptr), shape=(nodes, nodes))
    if not lists.has_canonical_format:
        return f"{side}_idx", "a list names a node twice or does not ascend: expected ascending ids, each once"
    if len(own := np.flatnonzero(lists.diagonal())):
        return f"{side}_idx", f"node {own[0]} is in its own list: expected no self-loops"
    return None


IN_ARRAYS = ("in_ptr", "in_idx")
WHOLE = ("whole_ptr", "whole_idx")  # all edges, where those of a split are fewer and each seed has its own split
DTYPES = {
    "out_ptr": "int64",
    "out_idx": "int32",
    "in_ptr": "int64",
    "in_idx": "int32",
    "features": "float32",
    "labels": "int64",
    "split": "uint8",
}
WHOLE_DTYPES = {"whole_ptr": "int64", "whole_idx": "int32"}

Lists = tuple[np.ndarray, np.ndarray]  # (ptr, idx), CSR


class GraphHeader(stored.ArraysHeader):
    """graph.json of a graph."""

    num_classes: int = Field(default=0, ge=0)
    symmetric: bool = False

    @property
    def expected(self) -> Iterable[str]:
        whole = WHOLE if set(WHOLE) & set(self.shapes) else ()
        return (*(name for name in DTYPES if not (self.symmetric and name in IN_ARRAYS)), *whole)


def save_graph(graph: Graph, folder: Path, whole: Lists | None = None) -> None:
    """Write `graph`; a graph whose lists by owner and by node pointed to are the same object stores them once.

    `whole`: the symmetric lists before the setting removed edges, for the splits of other seeds.
    """
    symmetric = graph.in_ptr is graph.out_ptr and graph.in_idx is graph.out_idx
    arrays = {name: getattr(graph, name) for name in DTYPES if not (symmetric and name in IN_ARRAYS)}
    if whole is not None:
        arrays |= dict(zip(WHOLE, whole, strict=True))
    own = {"num_classes": graph.num_classes, "symmetric": symmetric}
    stored.write_stored(folder, graph.name, arrays, DTYPES | WHOLE_DTYPES, statistics(graph), graph.meta, **own)


def load_graph(folder: Path, verify: bool = False, split: int = 0) -> Graph:
    """Return the graph with its random split number `split`; arrays stay on disk until they are read.

    Lists, labels and split are what `Graph` promises, or it is refused. `verify` reads everything: it compares hashes.
    Raises DataUnavailable with the recorded reason if the data could not be had, UserError for a damaged array.
    """
    folder = Path(folder)
    header = stored.read_header(folder, GraphHeader)
    arrays = stored.read_arrays(folder, header, DTYPES | WHOLE_DTYPES, verify)
    whole = (arrays.pop("whole_ptr"), arrays.pop("whole_idx")) if "whole_ptr" in arrays else None
    if header.symmetric:
        arrays["in_ptr"], arrays["in_idx"] = arrays["out_ptr"], arrays["out_idx"]
    wrong = first_problem(arrays, header.num_classes, header.symmetric)
    if wrong is None and whole is not None and split:
        edges = {**arrays, **dict(zip(("out_ptr", "out_idx"), whole, strict=True))}
        wrong = first_problem(edges, header.num_classes, symmetric=True)
    if wrong is not None:
        raise UserError(f"{folder / wrong[0]}.npy: {wrong[1]} ({stored.REMEDY})")
    graph = Graph(name=header.name, num_classes=header.num_classes, meta=header.meta, **arrays)
    return graph if split == 0 else _with_split(graph, whole, split)


def _with_split(graph: Graph, whole: Lists | None, number: int) -> Graph:
    task = graph.meta.get("task")
    named = task if isinstance(task, dict) else {}
    if not is_drawn(split := str(named.get("split"))):
        return graph
    changed = replace(graph, split=drawn_split(graph.labels, split, graph.name, number))
    if named.get("setting") == "transductive":
        return changed
    if whole is None:
        raise invalid(f"{graph.name}: split", number, "0: no other was prepared (run the preprocessing again)")
    ptr, idx = whole
    return apply_setting(replace(changed, out_ptr=ptr, out_idx=idx, in_ptr=ptr, in_idx=idx), str(named["setting"]))
