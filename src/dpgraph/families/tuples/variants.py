"""Mechanisms over tuples, from a cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.tuples.mechanism import AdaptiveTuples, ReleasedTuples, StandardTuples, StaticTuples
from dpgraph.problems.base import Counts


def _fields(asked: MechanismRequest) -> dict[str, Any]:
    return {
        **asked.common(asked.num_train),
        "sampling_rate": asked.rate,
        "max_degree": asked.privacy.max_degree,
        "negatives": asked.cell.training.negatives,
    }


def static_tuples(asked: MechanismRequest) -> StaticTuples:
    """Count places, not tuples: a null entity takes the tuples that it owns along."""
    entities, list_cap = asked.counts.num_protected or asked.num_train, asked.privacy.list_cap or 1
    places = StaticTuples.places(num_entities=entities, max_degree=asked.privacy.max_degree, list_cap=list_cap)
    return StaticTuples(**_fields(replace(asked, counts=Counts(places, entities))), list_cap=list_cap)


def standard_tuples(asked: MechanismRequest) -> StandardTuples:
    return StandardTuples(**_fields(asked))


def adaptive_tuples(asked: MechanismRequest) -> AdaptiveTuples:
    return AdaptiveTuples(**_fields(asked))


def released_tuples(asked: MechanismRequest) -> ReleasedTuples:
    return ReleasedTuples(**_fields(asked))
