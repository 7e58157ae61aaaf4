"""Small graphs for attacks, and the record that becomes null as the methods' code meets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpgraph.data.adjacency import transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.problems.images.value import Images


def directed_graph(
    owners: np.ndarray | Sequence[int],
    members: np.ndarray | Sequence[int],
    features: np.ndarray,
    labels: np.ndarray | Sequence[int],
    split: np.ndarray | None = None,
    classes: int = 2,
) -> Graph:
    """Return a graph in which `members[i]` is in the list of `owners[i]`; all nodes train without a `split`."""
    size = len(features)
    owner, member = np.asarray(owners, dtype=np.int64), np.asarray(members, dtype=np.int64)
    order = np.lexsort((member, owner))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))]).astype(np.int64)
    idx = member[order].astype(np.int32)
    back = transpose(ptr, idx)
    return Graph(
        name="audit",
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=back[0],
        in_idx=back[1],
        features=np.asarray(features, dtype=np.float32),
        labels=np.asarray(labels, dtype=np.int64),
        split=np.full(size, TRAIN, dtype=np.uint8) if split is None else np.asarray(split, dtype=np.uint8),
        num_classes=classes,
    )


def random_edges(random: np.random.Generator, size: int, chance: float | np.ndarray) -> np.ndarray:
    """Draw the (N, N) bool adjacency of an undirected graph, each pair of nodes joined with this chance."""
    upper = np.triu(random.random((size, size)) < chance, 1)
    return np.asarray(upper | upper.T)


def edges_of(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Return the owners and the members of all lists."""
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr)), np.asarray(graph.out_idx, dtype=np.int64)


def with_edges(graph: Graph, owners: np.ndarray, members: np.ndarray) -> Graph:
    """Return the graph with these lists in place of its own."""
    joined = directed_graph(owners, members, graph.features, graph.labels, graph.split, graph.num_classes)
    return replace(joined, name=graph.name)


def null_records(graph: Graph, nodes: np.ndarray | Sequence[int]) -> Graph:
    """Return the graph with null records (node-null): zero features, label -1, an empty own list.

    Pointers to the nodes and their places in the split stay.
    """
    gone = np.zeros(graph.num_nodes, dtype=bool)
    gone[np.asarray(nodes, dtype=np.int64)] = True
    owners, members = edges_of(graph)
    kept = ~gone[owners]
    features, labels = graph.features.copy(), graph.labels.copy()
    features[gone], labels[gone] = 0, -1
    return with_edges(replace(graph, features=features, labels=labels), owners[kept], members[kept])


def without_node(graph: Graph, node: int) -> Graph:
    """Return the graph without a node (node-remove), its place kept: the null record, and no pointer to it."""
    owners, members = edges_of(nulled := null_records(graph, [node]))
    kept = members != node
    return with_edges(nulled, owners[kept], members[kept])


def random_images(random: np.random.Generator, labels: np.ndarray, side: int, public: int = 0) -> Images:
    """Return square images of random pixels; all train but the last one, and `public` ones before it."""
    split = np.full(len(labels), TRAIN, dtype=np.uint8)
    split[-1 - public :], split[-1] = VALIDATION, TEST
    return Images(
        name="audit", features=random.random((len(labels), side * side), dtype=np.float32),
        labels=labels.astype(np.int64), split=split, num_classes=int(labels.max()) + 1, shape=(side, side, 1),
    )  # fmt: skip
