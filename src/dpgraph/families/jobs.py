"""Jobs of methods: labels of tested nodes are hidden, private data stand in prepared steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from dpgraph.config.cell import Cell
from dpgraph.engine.methods.base import Job
from dpgraph.engine.methods.spec import MethodSpec
from dpgraph.engine.preparation.base import Order, PreparedStep, PrivateData, prepare
from dpgraph.families.registry import spec
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.problems.registry import problem_of

Preparing = Callable[[Any, NoisySteps, int, PrivateData, torch.device], PreparedStep]  # of the fields of an `Order`


def prepare_seeded(*fields: Any) -> PreparedStep:
    """Prepare a run whose randomness follows from its seed."""
    return prepare(Order(*fields))


def make_jobs(
    value: Any,
    cell: Cell,
    seeds: Sequence[int],
    calibration: Calibration,
    device: torch.device,
    checkpoint: Path | None = None,
    preparing: Preparing = prepare_seeded,
    known: MethodSpec | None = None,
) -> list[Job]:
    """Return the jobs of one cell, one per seed, whose private data are on the device once.

    Args:
        value: The whole data set, test nodes included.
        cell: The cell.
        seeds: Numbers of the seeds.
        calibration: The mechanism with its noise.
        device: Where to compute.
        checkpoint: File to resume from.
        preparing: What prepares a step; another one than the default in audits only.
        known: Specification of the method, if it was looked up before.

    Raises:
        UserError: For a mechanism that the method does not name.
    """
    mechanism = calibration.mechanism
    known = known or spec(cell.method)
    known.check_runs(mechanism)
    problem = problem_of(cell.task).working()
    hidden = problem.blind(value)
    if not isinstance(mechanism, NoisySteps):
        if known.private:
            raise TypeError(f"{cell.method}: a private method without a private mechanism")
        if isinstance(mechanism, NoRecord):
            hidden = problem.counts_only(value)
        return [Job(hidden, cell, seed, calibration, device, None, checkpoint) for seed in seeds]
    data = PrivateData.from_graph(problem.graph(hidden), device)
    public = problem.unlabelled(hidden)
    return [
        Job(public, cell, seed, calibration, device, preparing(cell, mechanism, seed, data, device), checkpoint)
        for seed in seeds
    ]
