"""The mechanism of residual clipping, from a cell."""

from __future__ import annotations

from dpgraph.engine.methods.asked import Asked
from dpgraph.families.trees.mechanism import ResidualTrees
from dpgraph.families.trees.variants import stable_lists


def residual_trees(asked: Asked) -> ResidualTrees:
    privacy, second = asked.privacy, asked.privacy.neighbour_sampling_rate
    return ResidualTrees(
        **asked.common(asked.num_train),
        **stable_lists(asked),
        sampling_rate=asked.rate,
        neighbour_rate=asked.rate if second is None else second,
        neighbour_clip=privacy.neighbour_clip_ratio,
    )
