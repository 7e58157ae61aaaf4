"""The contract of a method: the job it is given, and the outcome it returns. tests/contract checks all methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpgraph.config.streams import MASKS, stream
from dpgraph.core.randomness import torch_generator
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
    """One seed as a method gets it; `families.jobs.make_jobs` makes it.

    Test labels are hidden: on a graph, labels outside training and validation are -1. A private method sees no label;
    the training labels are in `prepared`, with everything else that its guarantee depends on. A method with epsilon 0
    sees no record. Raises ValueError for a value that shows more.
    """

    shown: Any  # the problem's value
    cell: Any  # of the method's own class, see its specification
    seed: int
    calibration: Calibration  # noise and steps are known
    device: torch.device
    prepared: PreparedStep | None = None  # None: without privacy
    checkpoint: Path | None = None  # where a long run may leave its state; None: not kept
    doing: str = ""  # the name of its progress; empty: the cell's name and the seed

    def __post_init__(self) -> None:
        no_record = isinstance(self.mechanism, NoRecord)
        labels = self.prepared is None and not no_record
        problem_of(self.cell.task).working().check_shown(self.shown, labels, not no_record)

    @cached_property
    def graph(self) -> Graph:
        """The shown data as a graph; records of other kinds are nodes without edges."""
        return problem_of(self.cell.task).working().graph(self.shown)

    @property
    def mechanism(self) -> Mechanism:
        return self.calibration.mechanism

    def names(self, role: str) -> tuple[str | int, ...]:
        """Return the names of a random stream; methods with the same seed share the streams that `config.streams`
        lists.

        Raises NotAsAccounted for a secret stream of the prepared step, which has one reader, and for masks of dropout
        that must be secret.
        """
        if role in MASKS and self._has_secret_masks:
            raise NotAsAccounted(f"random stream {role}: other cells share it: expected the masks of job.masks")
        if self.prepared is not None and self.prepared.ledger.holds_secret(role):
            raise NotAsAccounted(f"random stream {role}: opened twice: the prepared step has it")
        return stream(self.cell, role, self.seed)

    @property
    def _has_secret_masks(self) -> bool:
        return self.prepared is not None and self.prepared.needs_secret_masks

    def masks(self, role: str = "masks") -> torch.Generator:
        """Return the generator of masks of dropout: the prepared step's secret one, or the shared one of `role`."""
        if self.prepared is not None and self._has_secret_masks:
            return self.prepared.masks()
        return torch_generator(*self.names(role), device=self.device)


@dataclass(frozen=True)
class Outcome:
    """The result of one seed; the evaluator computes its metrics."""

    logits: np.ndarray  # float32, of the last step: (N, classes), or what else the problem evaluates
    observations: list[Observation]  # what `observe` returned, unread
    steps_per_second: float
    peak_memory_bytes: int
    resumed_at: int = 0  # steps of an earlier process
    exposure: Any = None  # the problem's input of attacks on the parameters; None: no attack
    notes: dict[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """A class without constructor arguments that trains; the method's specification names it (engine/methods/spec.py).

    A private method touches private data through `Job.prepared` only, which is compared with the mechanism after the
    run.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed; call `observe` at the cell's evaluation points, the last step included."""


def evaluation_steps(evaluations: int, steps: int) -> set[int]:
    """Return `evaluations` steps at equal distances; the last one is `steps`.

    >>> sorted(evaluation_steps(3, 10))
    [4, 7, 10]
    """
    return {math.ceil(steps * (point + 1) / evaluations) for point in range(evaluations)}


def constant_outcome(job: Job, observe: Observe, logits: np.ndarray) -> Outcome:
    """Return the outcome of predictions that no step changes, observed at every evaluation point."""
    steps = job.calibration.statement.steps
    points = sorted(evaluation_steps(job.cell.training.evaluations, steps))
    return Outcome(
        logits=logits,
        observations=[observe(step, logits) for step in points],
        steps_per_second=0.0,
        peak_memory_bytes=0,
    )
