"""Scikit-learn's handwritten digits as a graph: each image is joined to its nearest neighbours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.splits import random_split

PERCENT = (60, 20, 20)


def read(raw_dir: Path, name: str, neighbours: int) -> RawGraph:
    """Return the graph of scikit-learn's images (64 pixels in [0, 1]). The split is random, keyed by `name`."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    images, labels = load_digits(return_X_y=True)
    features = (images / 16).astype(np.float32)
    edges = kneighbors_graph(features, neighbours, mode="connectivity").tocoo()
    labels = labels.astype(np.int64)
    return RawGraph(
        edges.row,
        edges.col,
        features,
        labels,
        random_split(labels, PERCENT, name, "public"),
        directed=True,
        data_dependent=("the edges: nearest neighbours among all images",),
    )
