"""Settings for a user's own graph, by rules of public numbers: who is given no results to choose by needs defaults."""

from __future__ import annotations

from typing import Any

STEPS, STEP = 10, 2.0  # full batches; together the step 20 of docs/privacy.md, 12.7
KINDS = {"votes": 0.5, "own": 0.0}  # votes_share


def own_graph_cell(kind: str, *, num_nodes: int, num_labelled: int, epsilon: float, delta: float) -> dict[str, Any]:
    """A cell: softmax regression on own records, all nodes being roots; one without a label adds nothing to a sum.

    A sum is divided by the number of all nodes, so the step is longer where few have a label.
    """
    return {
        "task": {"dataset": "own-graph"},
        "method": "dp-votes",
        "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
        "training": {
            "optimizer": "sgd",
            "learning_rate": STEP * num_nodes / num_labelled,
            "steps": STEPS,
            "sampling_rate": 1.0,
        },
        "privacy": {"epsilon": epsilon, "delta": delta, "clip_norm": 5.0, "votes_share": KINDS[kind]},
        "seeds": [0],
    }
