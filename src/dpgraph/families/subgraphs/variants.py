"""Mechanisms over parts of the training nodes, from a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.subgraphs.mechanism import GraphSplits
from dpgraph.privacy.public_numbers import nodes_with_loss

S = TypeVar("S", bound=GraphSplits)


def parts(kind: type[S]) -> Callable[[MechanismRequest], S]:
    def build(asked: MechanismRequest) -> S:
        training = asked.cell.training
        used = nodes_with_loss(num_train=asked.num_train, train_share=training.train_share)
        stops = getattr(training, "patience", None) is not None
        return kind(**asked.common(used), num_splits=training.num_splits, stops_early=stops)

    return build
