"""What a stored graph promises (`Graph`), checked on its arrays: samplers and Lemma 1 of docs/privacy.md rest on it.

Linear time, in pieces, so that memory does not grow with the graph.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES

PIECE = 1 << 20  # entries at a time
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


def problem_of_values(arrays: Arrays, symmetric: bool) -> Problem | None:
    """What reading everything shows beyond `problem`: features are finite, each edge is in both lists."""
    features = arrays["features"]
    rows = max(1, PIECE // max(1, features.shape[1]))
    for start in range(0, len(features), rows):
        if not np.isfinite(features[start : start + rows]).all():
            return "features", "nan or inf: expected finite numbers"
    out = _fingerprints(arrays["out_ptr"], arrays["out_idx"])
    if symmetric and out[0] != out[1]:
        return "out_idx", "an edge is in one list only: expected it in those of both ends"
    if not symmetric and out[::-1] != _fingerprints(arrays["in_ptr"], arrays["in_idx"]):
        return "in_idx", "not the edges of out_idx.npy by the node pointed to"
    return None


def _of_lists(side: str, ptr: np.ndarray, idx: np.ndarray) -> Problem | None:
    if ptr[0] != 0 or ptr[-1] != len(idx) or (np.diff(ptr) < 0).any():
        return f"{side}_ptr", "does not fit the other arrays of this graph"
    last_owner, last = -1, -1
    for owner, entry in _pieces(ptr, idx):
        if entry.min() < 0 or entry.max() >= len(ptr) - 1:
            ids = f"ids {entry.min()}..{entry.max()} instead of 0..{len(ptr) - 2}"
            return f"{side}_idx", f"does not fit the other arrays of this graph: {ids}"
        same = np.empty(len(owner), dtype=bool)
        same[0], same[1:] = owner[0] == last_owner, owner[1:] == owner[:-1]
        steps = np.empty(len(owner), dtype=np.int64)
        steps[0], steps[1:] = entry[0] - last, np.diff(entry)
        if (wrong := same & (steps <= 0)).any():
            place = int(wrong.argmax())
            what = "names a node twice" if steps[place] == 0 else "does not ascend"
            return f"{side}_idx", f"the list of node {owner[place]} {what}: expected ascending ids, each once"
        if (wrong := owner == entry).any():
            return f"{side}_idx", f"node {owner[int(wrong.argmax())]} is in its own list: expected no self-loops"
        last_owner, last = int(owner[-1]), int(entry[-1])
    return None


def _pieces(ptr: np.ndarray, idx: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The owners of the lists and their entries, up to PIECE entries at a time."""
    for start in range(0, len(idx), PIECE):
        stop = min(start + PIECE, len(idx))
        first, last = np.searchsorted(ptr, [start, stop - 1], side="right") - 1
        ends = np.clip(ptr[first : last + 2], start, stop)
        yield np.repeat(np.arange(first, last + 1, dtype=np.int32), np.diff(ends)), idx[start:stop]


def _fingerprints(ptr: np.ndarray, idx: np.ndarray) -> tuple[int, int]:
    """Sums of f(owner) g(entry) and of f(entry) g(owner) mod 2^64, f and g random.

    Lists of the same edges agree; others differ, but for a chance of about 2^-60.
    """
    generator = np.random.Generator(np.random.PCG64(len(ptr)))
    f, g = (generator.integers(0, 1 << 64, size=len(ptr), dtype=np.uint64) for _ in range(2))
    forward = backward = 0
    for owner, entry in _pieces(ptr, idx):
        forward += int((f[owner] * g[entry]).sum(dtype=np.uint64))
        backward += int((f[entry] * g[owner]).sum(dtype=np.uint64))
    return forward % (1 << 64), backward % (1 << 64)
