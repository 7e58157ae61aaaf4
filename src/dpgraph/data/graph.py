"""The one `Graph` value that every sampler, model and method takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dpgraph.errors import invalid

TRAIN, VALIDATION, TEST, NO_SPLIT = 0, 1, 2, 255
SPLIT_NAMES = {"train": TRAIN, "val": VALIDATION, "test": TEST}
DATA_DEPENDENT = "data_dependent"  # key of `Graph.meta`


@dataclass(frozen=True)
class Graph:
    """A node-classification task; arrays may be memory-mapped and are read-only.

    A node's *list* holds the nodes whose messages it receives (its own out-list: u points to v, so v's features flow
    to u; Daigavane et al., Algorithm 1). `out_*` are the lists by owner, `in_*` the same edges by the node pointed to.
    No self-loops, no duplicates; the ids within a list ascend. In an undirected graph each edge stands in both lists.
    """

    name: str
    out_ptr: np.ndarray  # (N + 1,) int64; list of u: out_idx[out_ptr[u]:out_ptr[u + 1]]
    out_idx: np.ndarray  # (E,) int32
    in_ptr: np.ndarray  # (N + 1,) int64
    in_idx: np.ndarray  # (E,) int32; owners of the lists that hold v
    features: np.ndarray  # (N, F) float32
    labels: np.ndarray  # (N,) int64; -1: none
    split: np.ndarray  # (N,) uint8: TRAIN, VALIDATION, TEST or NO_SPLIT
    num_classes: int
    meta: dict[str, object] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        return len(self.out_ptr) - 1

    @property
    def num_edges(self) -> int:
        """Directed entries: an undirected edge counts twice."""
        return len(self.out_idx)

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @cached_property
    def train_nodes(self) -> np.ndarray:
        """Ids of the training nodes, ascending: the roots of training subgraphs."""
        return np.flatnonzero(self.split == TRAIN)

    def nodes_of(self, split: str) -> np.ndarray:
        return np.flatnonzero(self.split == SPLIT_NAMES[split])


def data_dependent(graph: Graph) -> tuple[str, ...]:
    """What was made of all records together before training, one phrase each: no epsilon of a run covers it."""
    found = graph.meta.get(DATA_DEPENDENT, ())
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise invalid(f"{graph.name}: meta.{DATA_DEPENDENT}", found, "a list of texts (run the preprocessing again)")
    return tuple(found)
