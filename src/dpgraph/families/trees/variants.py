"""Mechanisms on ego trees, from a cell."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees.mechanism import FixedSizeStableTrees, PoissonTrees
from dpgraph.families.trees.published import FixedBatchTrees, PrintedRecords


def stable_lists(asked: MechanismRequest) -> dict[str, Any]:
    """Fields of trees over the stable sampler's lists; no K and D without hops."""
    hops, privacy = asked.cell.model.hops, asked.privacy
    cap = privacy.list_cap if privacy.list_cap is not None else privacy.max_degree
    return {"hops": hops, "max_degree": privacy.max_degree if hops else None, "list_cap": cap if hops else None}


def poisson_trees(asked: MechanismRequest) -> PoissonTrees:
    return PoissonTrees(**asked.common(asked.num_train), **stable_lists(asked), sampling_rate=asked.rate)


def fixed_size_trees(asked: MechanismRequest) -> FixedSizeStableTrees:
    return FixedSizeStableTrees(**asked.common(asked.num_train), **stable_lists(asked), batch_size=asked.batch_size)


def published_trees(asked: MechanismRequest) -> FixedBatchTrees:
    return FixedBatchTrees(**published_fields(asked))


def printed_records(asked: MechanismRequest) -> PrintedRecords:
    return PrintedRecords(**published_fields(asked))


def published_fields(asked: MechanismRequest) -> dict[str, Any]:
    """Fields of the paper's mechanism; K has no meaning without hops."""
    hops = asked.cell.model.hops
    return {
        **asked.common(asked.num_train),
        "hops": hops,
        "max_degree": asked.privacy.max_degree if hops else None,
        "batch_size": asked.batch_size,
        "groups": 1 + bool(hops) + bool(asked.cell.model.encoder_layers),  # decoder, aggregation, encoder
    }
