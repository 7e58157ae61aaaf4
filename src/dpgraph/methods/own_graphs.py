"""Settings of other methods for a user's own graph, for `dpgraph compare`: fixed, so that no result chooses them.

A specification offers them as its rule `own-graph`. They are common ones (Adam at .01, a hundred batches of a fifth),
the same for all methods, and tuned for none of them.
"""

from __future__ import annotations

from typing import Any

from dpgraph.problems.base import Size

RULE = "own-graph"
Setting = dict[str, Any]
BATCHES = {"optimizer": "adam", "learning_rate": 0.01, "sampling_rate": 0.2, "steps": 100}


def perceptron(size: Size, epsilon: float | None) -> Setting:
    return {"model": {"architecture": "mlp", "hops": 0, "width": 64}, "training": BATCHES}


def convolution(size: Size, epsilon: float | None) -> Setting:
    return {"model": {"architecture": "gcn", "hops": 1, "width": 64}, "training": BATCHES}


def aggregation(size: Size, epsilon: float | None) -> Setting:
    return {"model": {"architecture": "mlp", "hops": 0, "width": 64}, "training": BATCHES}
