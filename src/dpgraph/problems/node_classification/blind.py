"""What methods may see of a graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpgraph.data.graph import TRAIN, VALIDATION, Graph


def blind(graph: Graph) -> Graph:
    """The graph as methods see it: labels of nodes outside training and validation are -1."""
    hidden = ~np.isin(graph.split, (TRAIN, VALIDATION))
    return replace(graph, labels=np.where(hidden, -1, graph.labels))
