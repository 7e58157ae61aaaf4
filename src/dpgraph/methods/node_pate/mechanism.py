"""The mechanism of PATE on a graph, from a cell."""

from __future__ import annotations

from dpgraph.errors import invalid
from dpgraph.methods.asked import Asked
from dpgraph.privacy.mechanisms.gnmax import NodeGnmax


def node_gnmax(asked: Asked) -> NodeGnmax:
    """Protected are the training nodes; delta is set for all nodes, which is no larger."""
    if asked.steps is None:
        raise invalid("steps", "max", "a number: a student's steps cost nothing")
    privacy = asked.privacy
    return NodeGnmax(
        **asked.common(asked.num_train),
        max_checks=privacy.max_checks,
        max_answers=privacy.max_answers,
        check_ratio=privacy.check_ratio,
    )
