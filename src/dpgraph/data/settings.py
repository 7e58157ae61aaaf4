"""Settings: which edges training and inference may see."""

from __future__ import annotations

from dataclasses import replace

from dpgraph.core.errors import invalid
from dpgraph.data.adjacency import keep_entries, owners
from dpgraph.data.graph import Graph

SETTINGS = ("transductive", "disjoint", "clustered")


def apply_setting(graph: Graph, setting: str) -> Graph:
    """The graph with the edges of `setting`.

    transductive: all. disjoint, clustered: none between nodes of different splits (Daigavane et al., section 6.2);
    nodes without a split count as one more part, which keeps the edges among themselves.
    Guarantee of the last two: no path leads from a training node to a node of another split.
    """
    if setting not in SETTINGS:
        raise invalid("setting", setting, ", ".join(SETTINGS))
    if setting == "transductive":
        return graph
    out_ptr, out_idx = _within_splits(graph, graph.out_ptr, graph.out_idx)
    if graph.in_ptr is graph.out_ptr:
        in_ptr, in_idx = out_ptr, out_idx
    else:
        in_ptr, in_idx = _within_splits(graph, graph.in_ptr, graph.in_idx)
    return replace(graph, out_ptr=out_ptr, out_idx=out_idx, in_ptr=in_ptr, in_idx=in_idx)


def _within_splits(graph: Graph, ptr, idx):  # type: ignore[no-untyped-def]
    return keep_entries(ptr, idx, graph.split[owners(ptr)] == graph.split[idx])
