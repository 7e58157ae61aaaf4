"""Mechanisms over tuples, from a cell."""

from __future__ import annotations

from typing import Any

from dpgraph.methods.asked import Asked
from dpgraph.privacy.mechanisms.relations import AdaptiveTuples, ReleasedTuples, StandardTuples, StaticTuples


def _fields(asked: Asked) -> dict[str, Any]:
    return {
        **asked.common(asked.num_train),
        "sampling_rate": asked.rate,
        "max_degree": asked.privacy.max_degree,
        "negatives": asked.cell.training.negatives,
    }


def static_tuples(asked: Asked) -> StaticTuples:
    return StaticTuples(**_fields(asked), list_cap=asked.privacy.list_cap or 1)


def standard_tuples(asked: Asked) -> StandardTuples:
    return StandardTuples(**_fields(asked))


def adaptive_tuples(asked: Asked) -> AdaptiveTuples:
    return AdaptiveTuples(**_fields(asked))


def released_tuples(asked: Asked) -> ReleasedTuples:
    return ReleasedTuples(**_fields(asked))
