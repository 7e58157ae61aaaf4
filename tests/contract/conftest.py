"""A toy graph on which every method runs in a moment."""

import numpy as np
import pytest

from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN, VALIDATION


def toy_graph(nodes: int = 60) -> Graph:
    random = numpy_generator("toy graph")
    labels = np.arange(nodes) % 3
    same = labels[:, None] == labels[None, :]
    upper = np.triu(random.random((nodes, nodes)) < np.where(same, 0.2, 0.02), 1)
    adjacency = upper | upper.T
    owners, members = np.nonzero(adjacency)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=nodes))])
    features = random.normal(size=(nodes, 5)) + 0.5 * np.eye(5)[labels]
    split = np.where(np.arange(nodes) < nodes * 2 // 3, TRAIN, np.where(np.arange(nodes) % 2, VALIDATION, TEST))
    members = members.astype(np.int32)
    return Graph(
        name="toy",
        out_ptr=ptr,
        out_idx=members,
        in_ptr=ptr,
        in_idx=members,
        features=features.astype(np.float32),
        labels=labels.astype(np.int64),
        split=split.astype(np.uint8),
        num_classes=3,
    )


@pytest.fixture(scope="session")
def toy():
    return toy_graph()
