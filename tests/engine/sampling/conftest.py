from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN


@pytest.fixture(scope="session")
def graph_of():
    """Graph from {owner: members}; `roots` are its training nodes."""

    def build(num_nodes: int, lists: Mapping[int, Sequence[int]], roots: Sequence[int] | None = None) -> Graph:
        members = [sorted(lists.get(v, ())) for v in range(num_nodes)]
        ptr = np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64)
        split = np.full(num_nodes, TRAIN if roots is None else 2, dtype=np.uint8)
        split[np.array([] if roots is None else roots, dtype=np.int64)] = TRAIN
        idx = np.array([u for m in members for u in m], dtype=np.int32)
        owner = np.repeat(np.arange(num_nodes, dtype=np.int32), np.diff(ptr))
        order = np.lexsort((owner, idx))
        in_ptr = np.concatenate([[0], np.cumsum(np.bincount(idx, minlength=num_nodes))]).astype(np.int64)
        features = np.zeros((num_nodes, 1), dtype=np.float32)
        labels = np.zeros(num_nodes, dtype=np.int64)
        return Graph(
            name="toy",
            out_ptr=ptr,
            out_idx=idx,
            in_ptr=in_ptr,
            in_idx=owner[order],
            features=features,
            labels=labels,
            split=split,
            num_classes=2,
        )

    return build


@pytest.fixture(scope="session")
def tree():
    """DFS-TREE (Algorithm 2) as a nested tuple: (v, subtrees of depth r - 1 of v's list)."""

    def build(lists, v: int, depth: int):
        return (v, tuple(build(lists, int(u), depth - 1) for u in lists.members(v)) if depth else ())

    return build
