"""The mechanisms of GAP and ProGAP, from a cell."""

from __future__ import annotations

import math
from typing import Any

from dpgraph.errors import invalid
from dpgraph.methods.asked import Asked
from dpgraph.privacy.mechanisms.aggregates import BoundedAggregates, CappedAggregates, EdgeAggregates
from dpgraph.privacy.public_numbers import usual_delta


def capped_aggregates(asked: Asked) -> CappedAggregates:
    return CappedAggregates(**_node_level(asked), receivers=asked.privacy.receivers)


def bounded_aggregates(asked: Asked) -> BoundedAggregates:
    return BoundedAggregates(**_node_level(asked), receivers=asked.privacy.degree_bound)


def edge_aggregates(asked: Asked) -> EdgeAggregates:
    return EdgeAggregates(**_common(asked), aggregations=asked.cell.model.aggregations)


def _common(asked: Asked) -> dict[str, Any]:
    common = asked.common(asked.num_train)
    if asked.privacy.delta is None:  # everybody sends, so everybody is protected
        common["delta"] = usual_delta(asked.counts.num_protected or asked.num_train)
    return common


def _node_level(asked: Asked) -> dict[str, Any]:
    """With a share of the budget, the squares of mu of sums and steps are as their shares; that of T steps at rate q
    counts q^2 T / s^2, which is exact for full batches. The accountant composes what ran."""
    share, aggregations, ratio = asked.privacy.sums_share, asked.cell.model.aggregations, 1.0
    if share is not None:
        if asked.steps is None:
            raise invalid("steps", "max", "a number: shares of the budget are shares of that many steps")
        ratio = math.sqrt(aggregations * (1 - share) / share / asked.steps) / asked.rate
    return {**_common(asked), "sampling_rate": asked.rate, "aggregations": aggregations, "sums_ratio": ratio}
