"""The operations of the pipeline on a graph."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.data.graph import Graph
from dpgraph.data.store import load_graph
from dpgraph.problems.classification import ClassifiedRecords
from dpgraph.problems.node_classification import exposure as attacks


class NodeClassification(ClassifiedRecords):
    """Values are graphs."""

    def load(self, folder: Path, verify: bool, split: int) -> Graph:
        return load_graph(folder, verify=verify, split=split)

    def counts_only(self, value: Graph) -> Graph:
        """Return the numbers of nodes and classes, and the split, without a record."""
        features = np.zeros((value.num_nodes, 0), dtype=np.float32)
        return replace(Graph.without_edges(self.unlabelled(value)), features=features, meta={})

    def check_shown(self, value: Graph, labels: bool, records: bool) -> None:
        if not records and (value.num_edges or value.num_features):
            raise ValueError("graph: expected no edges and no features for a method whose epsilon is 0")
        self.check_labels(value, labels)

    def graph(self, value: Graph) -> Graph:
        return value

    def exposure_metrics(
        self, value: Graph, exposure: attacks.Exposure, step: int, *names: str | int
    ) -> tuple[tuple[Metric, ...], dict[str, str]]:
        return attacks.exposure_metrics(value, exposure, step, *names)
