"""The mechanisms of GAP, ProGAP and DPDGC, from a cell."""

from __future__ import annotations

import math
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.asked import Asked
from dpgraph.families.aggregates.embedding_mechanism import EmbeddedAggregates
from dpgraph.families.aggregates.mechanism import BoundedAggregates, CappedAggregates, EdgeAggregates


def capped_aggregates(asked: Asked) -> CappedAggregates:
    return CappedAggregates(**_node_level(asked), receivers=asked.privacy.receivers)


def bounded_aggregates(asked: Asked) -> BoundedAggregates:
    return BoundedAggregates(**_node_level(asked), receivers=asked.privacy.degree_bound)


def edge_aggregates(asked: Asked) -> EdgeAggregates:
    return EdgeAggregates(**asked.common(asked.num_train), aggregations=asked.cell.model.aggregations)


def first_half(steps: int) -> int:
    """Return the number of steps of the first of two parts; each has at least one step if there are two."""
    return max(1, min(steps - 1, round(0.5 * steps)))


def embedded(asked: Asked) -> EmbeddedAggregates:
    """Without shares the sum, a step of the embedding and one of the classifier cost the same in full batches: a
    record moves them by sqrt(D), (2 D + 1) C and C."""
    receivers = asked.privacy.receivers
    return _embedded(asked, step=2 * receivers + 1, released=1.0)


def printed_embedded(asked: Asked) -> EmbeddedAggregates:
    """As the released code charges, 2 C to a step of the classifier: 2 sqrt(D + 1) C and sqrt(2 D)."""
    receivers = asked.privacy.receivers
    return _embedded(asked, step=math.sqrt(receivers + 1), released=math.sqrt(0.5))


def _embedded(asked: Asked, step: float, released: float) -> EmbeddedAggregates:
    """`step`: what a step of the embedding is charged over one of the classifier; `released`: the sum, over sqrt(D).

    Squares of mu are as the shares; T steps at rate q count q^2 T / s^2, which is exact for full batches.
    """
    if asked.steps is None:
        raise invalid("steps", "max", "a number: vectors are learnt in a share of that many steps")
    privacy = asked.privacy
    first = first_half(asked.steps)
    embedding_ratio, sums_ratio = step, released
    if privacy.sums_share is not None:
        rest, steps = 1 - privacy.sums_share - privacy.embedding_share, max(1, asked.steps - first)
        embedding_ratio *= math.sqrt(rest / privacy.embedding_share * first / steps)
        sums_ratio *= math.sqrt(rest / privacy.sums_share / steps) / asked.rate
    return EmbeddedAggregates(
        **asked.common(asked.num_train),
        sampling_rate=asked.rate,
        aggregations=1,
        receivers=privacy.receivers,
        sums_ratio=sums_ratio,
        embedding_steps=first,
        embedding_ratio=embedding_ratio,
    )


def _node_level(asked: Asked) -> dict[str, Any]:
    """With a share of the budget, the squares of mu of sums and steps are as their shares; that of T steps at rate q
    counts q^2 T / s^2, which is exact for full batches. The accountant composes what ran."""
    share, aggregations, ratio = asked.privacy.sums_share, asked.cell.model.aggregations, 1.0
    if share is not None:
        if asked.steps is None:
            raise invalid("steps", "max", "a number: shares of the budget are shares of that many steps")
        ratio = math.sqrt(aggregations * (1 - share) / share / asked.steps) / asked.rate
    return {
        **asked.common(asked.num_train),
        "sampling_rate": asked.rate,
        "aggregations": aggregations,
        "sums_ratio": ratio,
    }
