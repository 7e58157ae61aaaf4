"""The operations of the pipeline on a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.data.store import load_graph
from dpgraph.problems.base import Counts
from dpgraph.problems.classification import evaluate, hidden_labels, predictions
from dpgraph.problems.node_classification import exposure as attacks


def blind(graph: Graph) -> Graph:
    """Return the graph as methods see it: labels of nodes outside training and validation are -1."""
    return replace(graph, labels=hidden_labels(graph))


def counts_only(graph: Graph) -> Graph:
    """Return the graph as a method with epsilon 0 sees it: numbers of nodes and classes, the split, no record."""
    ptr = np.zeros(graph.num_nodes + 1, dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    return replace(
        graph,
        out_ptr=ptr,
        out_idx=none,
        in_ptr=ptr,
        in_idx=none,
        features=np.zeros((graph.num_nodes, 0), dtype=np.float32),
        labels=np.full(graph.num_nodes, -1, dtype=np.int64),
        meta={},
    )


class NodeClassification:
    """Values are graphs; scores are (N, classes) logits; (N,) int16 classes are kept, -1 for none."""

    def load(self, folder: Path, verify: bool, split: int) -> Graph:
        return load_graph(folder, verify=verify, split=split)

    def counts(self, value: Graph) -> Counts:
        return Counts(len(value.train_nodes), value.num_nodes)

    def blind(self, value: Graph) -> Graph:
        return blind(value)

    def unlabelled(self, value: Graph) -> Graph:
        return replace(value, labels=np.full(value.num_nodes, -1, dtype=np.int64))

    def counts_only(self, value: Graph) -> Graph:
        return counts_only(value)

    def check_shown(self, value: Graph, labels: bool, records: bool) -> None:
        if not records and (value.num_edges or value.num_features):
            raise ValueError("graph: expected no edges and no features for a method whose epsilon is 0")
        allowed = np.isin(value.split, (TRAIN, VALIDATION)) & labels
        if (np.asarray(value.labels)[~allowed] >= 0).any():
            raise ValueError("graph: expected no labels but those that the method may read")

    def graph(self, value: Graph) -> Graph:
        return value

    def evaluate(self, value: Graph, scores: np.ndarray, step: int, final: bool) -> list[Metric]:
        return evaluate(value, scores, step, final)

    def predictions(self, value: Graph, scores: np.ndarray) -> np.ndarray:
        return predictions(scores).astype(np.int16)

    def exposure_metrics(
        self, value: Graph, exposure: attacks.Exposure, step: int, *names: str | int
    ) -> tuple[tuple[Metric, ...], dict[str, str]]:
        return attacks.exposure_metrics(value, exposure, step, *names)
