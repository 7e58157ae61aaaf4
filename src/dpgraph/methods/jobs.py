"""From a graph to what methods get: labels hidden, private data in prepared steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dpgraph.data.graph import Graph
from dpgraph.experiments.cell import Cell
from dpgraph.methods.base import Job
from dpgraph.methods.registry import check_runs, spec
from dpgraph.preparation.base import Order, PrivateData, prepare
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.problems.node_classification.blind import blind, counts_only


def make_jobs(
    graph: Graph,
    cell: Cell,
    seeds: Sequence[int],
    calibration: Calibration,
    device: torch.device,
    checkpoint: Path | None = None,
) -> list[Job]:
    """Jobs of one cell, whose private data lie on the device once.

    Raises UserError for a mechanism that the method does not name.
    """
    mechanism = calibration.mechanism
    check_runs(cell.method, mechanism)
    hidden = blind(graph)
    if not isinstance(mechanism, NoisySteps):
        if spec(cell.method).private:
            raise TypeError(f"{cell.method}: a private method without a private mechanism")
        if isinstance(mechanism, NoRecord):
            hidden = counts_only(graph)
        return [Job(hidden, cell, seed, calibration, device, None, checkpoint) for seed in seeds]
    data = PrivateData.of(hidden, device)
    public = replace(hidden, labels=np.full(hidden.num_nodes, -1, dtype=np.int64))
    return [
        Job(
            public,
            cell,
            seed,
            calibration,
            device,
            prepare(Order(cell, mechanism, seed, data, device)),
            checkpoint,
        )
        for seed in seeds
    ]
