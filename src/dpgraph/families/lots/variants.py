"""Mechanisms over lots, from a cell."""

from __future__ import annotations

from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.lots.mechanism import ComponentLots, ShuffledLots, UnclippedLots
from dpgraph.families.trees.records import PoissonLots


def poisson_lots(asked: MechanismRequest) -> PoissonLots:
    return PoissonLots(**asked.common(asked.num_train), sampling_rate=asked.rate)


def component_lots(asked: MechanismRequest) -> ComponentLots:
    privacy = asked.privacy
    return ComponentLots(
        **asked.common(asked.num_train),
        sampling_rate=asked.rate,
        components=privacy.components,
        components_noise=privacy.components_noise,
    )


def shuffled_lots(asked: MechanismRequest) -> ShuffledLots:
    return ShuffledLots(**asked.common(asked.num_train), batch_size=asked.batch_size)


def unclipped_lots(asked: MechanismRequest) -> UnclippedLots:
    return UnclippedLots(**asked.common(asked.num_train), batch_size=asked.batch_size)
