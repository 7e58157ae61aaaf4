"""Statistics of a graph, as data set tables print them (Daigavane et al., Table 7; Igamberdiev & Habernal, Table 1)."""

from __future__ import annotations

import numpy as np

from dpgraph.data.adjacency import owners
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES


def statistics(graph: Graph) -> dict[str, object]:
    """Counts of nodes, entries, features, classes and splits.

    `entries` are directed: an undirected edge counts twice; `mean_degree` is entries / nodes. `homophily` is the share
    of entries between labelled nodes that join equal labels, `within_split` the share of entries between nodes with a
    split that stay within one; both are None where there is no such entry.
    """
    owner = owners(graph.out_ptr)
    degree = np.diff(graph.out_ptr)
    labelled = (graph.labels[owner] >= 0) & (graph.labels[graph.out_idx] >= 0)
    same_label = graph.labels[owner] == graph.labels[graph.out_idx]
    placed = (graph.split[owner] != NO_SPLIT) & (graph.split[graph.out_idx] != NO_SPLIT)
    same_split = graph.split[owner] == graph.split[graph.out_idx]
    sizes = {name: int((graph.split == value).sum()) for name, value in SPLIT_NAMES.items()}
    return {
        "nodes": graph.num_nodes,
        "entries": graph.num_edges,
        "undirected_edges": graph.num_edges // 2,
        "mean_degree": graph.num_edges / max(graph.num_nodes, 1),
        "max_degree": int(degree.max(initial=0)),
        "isolated_nodes": int((degree == 0).sum()),
        "features": graph.num_features,
        "classes": graph.num_classes,
        "split_sizes": sizes,
        "split_fractions": {name: size / max(graph.num_nodes, 1) for name, size in sizes.items()},
        "homophily": _share(same_label & labelled, labelled),
        "entries_within_splits": int((same_split & placed).sum()),
        "within_split": _share(same_split & placed, placed),
    }


def _share(part: np.ndarray, whole: np.ndarray) -> float | None:
    count = int(whole.sum())
    return float(part.sum() / count) if count else None
