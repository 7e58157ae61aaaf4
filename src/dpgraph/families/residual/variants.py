"""The mechanism of residual clipping, from a cell."""

from __future__ import annotations

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees.mechanism import ResidualTrees
from dpgraph.families.trees.variants import stable_lists


def residual_trees(asked: MechanismRequest) -> ResidualTrees:
    privacy, second = asked.privacy, asked.privacy.neighbour_sampling_rate
    choice, epsilon = privacy.choice_epsilon, privacy.epsilon
    if choice is not None and epsilon is not None and choice >= epsilon:
        raise invalid("choice_epsilon", choice, f"a number < epsilon = {epsilon:g}, of which it is a part")
    return ResidualTrees(
        **asked.common(asked.num_train),
        **stable_lists(asked),
        sampling_rate=asked.rate,
        neighbour_rate=asked.rate if second is None else second,
        neighbour_clip=privacy.neighbour_clip_ratio,
        choice_epsilon=choice or 0.0,
    )
