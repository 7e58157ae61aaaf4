"""Settings for a user's own graph, by rules of public numbers: who is given no results to choose by needs defaults."""

from __future__ import annotations

from typing import Any

from dpgraph.methods.votes.rules import votes_with_caps, votes_with_schema
from dpgraph.problems.base import Size

STEPS, STEP = 10, 2.0  # full batches; together the step 20 of docs/privacy.md, 12.7
KINDS = {"votes": 0.5, "own": 0.0}  # votes_share
# under node-remove, of what the public rule gives: how votes are capped and read; training is that of all own graphs
CAPPED = (
    "variant", "votes_share", "vote_mass", "strength", "degrees_share", "cap_margin", "degree_floor", "hub_share",
    "hub_limit", "degree_bound",
)  # fmt: skip
ALONE: dict[str, Any] = {"variant": "node-remove-capped", "votes_share": 0.0}


def own_graph_cell(*, roots: int, num_labelled: int, privacy: dict[str, Any]) -> dict[str, Any]:
    """A cell: softmax regression on own records; a root without a label adds nothing to a sum.

    A sum is divided by the number of all roots, so the step is longer where few have a label.
    """
    return {
        "task": {"dataset": "own-graph"},
        "method": "dp-votes",
        "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
        "training": {
            "optimizer": "sgd",
            "learning_rate": STEP * roots / num_labelled,
            "steps": STEPS,
            "sampling_rate": 1.0,
        },
        "privacy": {"clip_norm": 5.0, **privacy},
        "seeds": [0],
    }


def capped_votes(size: Size, epsilon: float) -> dict[str, Any] | None:
    """Settings of votes under node-remove; None where the public rule has votes drown in noise."""
    rule = votes_with_caps if size.degree_bound is None else votes_with_schema
    found = rule(size, epsilon)["privacy"]
    return {name: found[name] for name in CAPPED if name in found} if found["votes_share"] else None
