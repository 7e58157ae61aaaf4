"""DP-MLP's mechanism under node-remove, from a cell. By itself: an edit of it calibrates no other variant again."""

from __future__ import annotations

from dpgraph.methods.asked import Asked
from dpgraph.privacy.mechanisms.removed_records import RemovedRecords


def removed_records(asked: Asked) -> RemovedRecords:
    return RemovedRecords(**asked.common(asked.num_train), hops=asked.cell.model.hops, sampling_rate=asked.rate)
