"""Mechanisms over lots, from a cell."""

from __future__ import annotations

from dpgraph.engine.methods.asked import Asked
from dpgraph.families.lots.mechanism import ComponentLots, ShuffledLots, UnclippedLots
from dpgraph.families.trees.records import PoissonLots


def poisson_lots(asked: Asked) -> PoissonLots:
    return PoissonLots(**asked.common(asked.num_train), sampling_rate=asked.rate)


def component_lots(asked: Asked) -> ComponentLots:
    privacy = asked.privacy
    return ComponentLots(
        **asked.common(asked.num_train),
        sampling_rate=asked.rate,
        components=privacy.components,
        components_noise=privacy.components_noise,
    )


def shuffled_lots(asked: Asked) -> ShuffledLots:
    return ShuffledLots(**asked.common(asked.num_train), batch_size=asked.batch_size)


def unclipped_lots(asked: Asked) -> UnclippedLots:
    return UnclippedLots(**asked.common(asked.num_train), batch_size=asked.batch_size)
