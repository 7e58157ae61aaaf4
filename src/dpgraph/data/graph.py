"""The one `Graph` value that every sampler, model and method on graphs takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from dpgraph.data.records import Records


@dataclass(frozen=True, kw_only=True)
class Graph(Records):
    """A node-classification task: its records are nodes.

    A node's *list* holds the nodes whose messages it receives (its own out-list: u points to v, so v's features flow
    to u; Daigavane et al., Algorithm 1). `out_*` are the lists by owner, `in_*` the same edges by the node pointed to.
    No self-loops, no duplicates; the ids within a list ascend. In an undirected graph each edge is in both lists.
    """

    out_ptr: np.ndarray  # (N + 1,) int64; list of u: out_idx[out_ptr[u]:out_ptr[u + 1]]
    out_idx: np.ndarray  # (E,) int32
    in_ptr: np.ndarray  # (N + 1,) int64
    in_idx: np.ndarray  # (E,) int32; owners of the lists that hold v

    @property
    def num_edges(self) -> int:
        """Directed entries: an undirected edge counts twice."""
        return len(self.out_idx)

    @classmethod
    def without_edges(cls, records: Records) -> Self:
        """Return the records as nodes without edges, for methods that read own records only."""
        ptr, none = np.zeros(records.num_nodes + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return cls(
            name=records.name,
            features=records.features,
            labels=records.labels,
            split=records.split,
            num_classes=records.num_classes,
            meta=records.meta,
            out_ptr=ptr,
            out_idx=none,
            in_ptr=ptr,
            in_idx=none,
        )
