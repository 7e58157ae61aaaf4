"""DP-MLP's mechanism under node-remove, from a cell. By itself: an edit of it calibrates no other variant again."""

from __future__ import annotations

from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees.removed_mechanism import RemovedRecords


def removed_records(asked: MechanismRequest) -> RemovedRecords:
    return RemovedRecords(**asked.common(asked.num_train), hops=asked.cell.model.hops, sampling_rate=asked.rate)
