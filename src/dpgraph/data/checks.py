"""What a stored graph promises (`Graph`), checked on its arrays: samplers and Lemma 1 of docs/privacy.md rest on it.

What was written is known by its hash (`stored.read_arrays`); this is what code that trusts the arrays could not bear.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES

SPLITS = [*SPLIT_NAMES.values(), NO_SPLIT]

Arrays = dict[str, np.ndarray]
Problem = tuple[str, str]  # name of the array, what is wrong with it


def problem(arrays: Arrays, num_classes: int, symmetric: bool) -> Problem | None:
    """What is wrong first, None: nothing. Reads all but the features."""
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
