"""The mechanisms of PATE, on images and on nodes, from a cell."""

from __future__ import annotations

from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.pate.mechanism import ConfidentGnmax, NodeGnmax


def capped(asked: MechanismRequest) -> dict[str, Any]:
    """Fields of both mechanisms, on images and on nodes."""
    if asked.steps is None:
        raise invalid("steps", "max", "a number: a student's steps cost nothing")
    privacy = asked.privacy
    caps = {name: getattr(privacy, name) for name in ("max_checks", "max_answers", "check_ratio")}
    return {**asked.common(asked.num_train), **caps}


def confident_gnmax(asked: MechanismRequest) -> ConfidentGnmax:
    """Protected are the teachers' records alone, and all other images are public; delta is set for all images."""
    return ConfidentGnmax(**capped(asked))


def node_gnmax(asked: MechanismRequest) -> NodeGnmax:
    """Protected are the training nodes; delta is set for all nodes, which is no larger."""
    return NodeGnmax(**capped(asked))
