"""The contract of a method. tests/contract runs every method through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpgraph.config.streams import stream
from dpgraph.data.graph import Graph
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.base import Mechanism
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.privacy.procedure import NotAsAccounted
from dpgraph.problems.registry import problem_of

if TYPE_CHECKING:
    import torch

    from dpgraph.engine.preparation.base import PreparedStep
import math

Observation = dict[str, Any]  # plain JSON: it goes into checkpoints
Observe = Callable[[int, np.ndarray], Observation]  # (steps done, logits (N, classes)); the evaluator listens here


@dataclass(frozen=True)
class Job:
    """What a method gets for one seed; `families.jobs.make_jobs` makes it.

    What it is tested on is hidden; on a graph, labels outside training and validation are -1. A private method sees no
    label at all: those that it trains on are in `prepared`, with all that its guarantee rests on. A method whose
    epsilon is 0 sees no record at all. Raises ValueError for a value that shows more.
    """

    shown: Any  # the problem's value
    cell: Any  # of the method's own class, see its specification
    seed: int
    calibration: Calibration  # noise and steps are known
    device: torch.device
    prepared: PreparedStep | None = None  # None: without privacy
    checkpoint: Path | None = None  # where a long run may leave its state; None: not kept
    doing: str = ""  # what its progress is called, in the user's words; empty: the cell's name and the seed

    def __post_init__(self) -> None:
        no_record = isinstance(self.mechanism, NoRecord)
        labels = self.prepared is None and not no_record
        problem_of(self.cell.task).working().check_shown(self.shown, labels, not no_record)

    @cached_property
    def graph(self) -> Graph:
        """What is shown as a graph; records of other kinds are its nodes, which no edge joins."""
        return problem_of(self.cell.task).working().graph(self.shown)

    @property
    def mechanism(self) -> Mechanism:
        return self.calibration.mechanism

    def names(self, role: str) -> tuple[str | int, ...]:
        """Return the names of a random generator; methods are paired by seed in what `config.streams` lists.

        Raises NotAsAccounted for a secret stream of the prepared step: nothing else may draw from it.
        """
        if self.prepared is not None and self.prepared.ledger.holds_secret(role):
            raise NotAsAccounted(f"random stream {role}: opened twice: the prepared step has it")
        return stream(self.cell, role, self.seed)


@dataclass(frozen=True)
class Outcome:
    """What a method returns of one seed; metrics are not its business."""

    logits: np.ndarray  # float32, of the last step: (N, classes), or what else the problem evaluates
    observations: list[Observation]  # what `observe` returned, unread
    steps_per_second: float
    peak_memory_bytes: int
    resumed_at: int = 0  # steps of an earlier process
    exposure: Any = None  # what attacks on the parameters may use, of the problem; None: the method offers nothing
    notes: dict[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """What runs: a class without arguments, named by the method's specification (engine/methods/spec.py).

    What a private method does with private data is `Job.prepared`, compared with the mechanism after the run.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed; calls `observe` at the cell's evaluation points, the last step included."""


def evaluation_steps(evaluations: int, steps: int) -> set[int]:
    """`evaluations` steps at equal distances, the last of all `steps` among them.

    >>> sorted(evaluation_steps(3, 10))
    [4, 7, 10]
    """
    return {math.ceil(steps * (point + 1) / evaluations) for point in range(evaluations)}


def constant_outcome(job: Job, observe: Observe, logits: np.ndarray) -> Outcome:
    """Predictions that no step changes, seen at every evaluation point."""
    steps = job.calibration.statement.steps
    points = sorted(evaluation_steps(job.cell.training.evaluations, steps))
    return Outcome(
        logits=logits,
        observations=[observe(step, logits) for step in points],
        steps_per_second=0.0,
        peak_memory_bytes=0,
    )
