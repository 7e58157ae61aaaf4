"""Settings of other methods for a user's own graph, for `dpgraph compare`: fixed, so that no result chooses them.

A specification offers them as its rule `own-graph`, and as `own-graph-node-remove` or `own-graph-edge` where its
promise under that relation needs others. They are common ones (Adam at .01, a hundred batches of a fifth),
the same for all methods, and tuned for none of them.
"""

from __future__ import annotations

from typing import Any

from dpgraph.core.errors import UserError
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size

RULE = "own-graph"
RULE_OF_REMOVED, RULE_OF_EDGES = f"{RULE}-{Relation.NODE_REMOVE}", f"{RULE}-{Relation.EDGE}"
RULES = (RULE, RULE_OF_REMOVED, RULE_OF_EDGES)
Setting = dict[str, Any]
BATCHES = {"optimizer": "adam", "learning_rate": 0.01, "sampling_rate": 0.2, "steps": 100}


def perceptron(size: Size, epsilon: float | None) -> Setting:
    """Return a perceptron on own records, or on noisy sums over neighbours."""
    return {"model": {"architecture": "mlp", "hops": 0, "width": 64}, "training": BATCHES}


def perceptron_of_removed(size: Size, epsilon: float | None) -> Setting:
    """Return a perceptron on own records under node-remove."""
    return perceptron(size, epsilon) | {"privacy": {"variant": "node-remove"}}


def convolution(size: Size, epsilon: float | None) -> Setting:
    """Return a graph convolution of one hop."""
    return {"model": {"architecture": "gcn", "hops": 1, "width": 64}, "training": BATCHES}


def aggregation_of_removed(size: Size, epsilon: float | None) -> Setting:
    """Return noisy sums under node-remove. Raise UserError without a bound on degrees, which their bound needs."""
    if size.degree_bound is None:
        raise UserError("--degree-bound: expected the public bound on degrees of your schema, which bounds the sums")
    return perceptron(size, epsilon) | {"privacy": {"variant": "node-remove", "degree_bound": size.degree_bound}}


def aggregation_of_edges(size: Size, epsilon: float | None) -> Setting:
    """Return noisy sums under edge privacy."""
    return perceptron(size, epsilon) | {"privacy": {"variant": "edge"}}


def votes_of_edges(size: Size, epsilon: float | None) -> Setting:
    """Return votes under edge privacy."""
    return perceptron(size, epsilon) | {"training": BATCHES | {"sampling_rate": 1.0, "steps": 1200}}


def rule_for(relation: Relation) -> str:
    """Return the name of the rule for a relation."""
    return RULE if relation is Relation.NODE_NULL else f"{RULE}-{relation}"
