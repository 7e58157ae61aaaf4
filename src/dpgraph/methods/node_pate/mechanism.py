"""The mechanism of PATE on a graph, from a cell."""

from __future__ import annotations

from dpgraph.methods.asked import Asked
from dpgraph.methods.pate.mechanism import capped
from dpgraph.privacy.mechanisms.gnmax import NodeGnmax


def node_gnmax(asked: Asked) -> NodeGnmax:
    """Protected are the training nodes; delta is set for all nodes, which is no larger."""
    return NodeGnmax(**capped(asked))
