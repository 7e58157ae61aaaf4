"""The contract of a method. tests/contract runs every method through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dpgraph.data.graph import Graph
from dpgraph.experiments.cell import Cell
from dpgraph.methods.exposure import Exposure
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.guarantee import PrivacyStatement
from dpgraph.privacy.mechanisms import Mechanism

if TYPE_CHECKING:
    import torch

    from dpgraph.training.loop import Diverged

Observation = dict[str, Any]  # plain JSON: it goes into checkpoints
Observe = Callable[[int, np.ndarray], Observation]  # (steps done, logits (N, classes)); the evaluator listens here


@dataclass(frozen=True)
class Job:
    """What a method gets for one seed. Labels outside training and validation are hidden (-1)."""

    graph: Graph
    cell: Cell
    seed: int
    calibration: Calibration  # noise and steps are known
    device: torch.device
    checkpoint: Path | None = None  # where a long run may leave its state; None: nowhere

    @property
    def mechanism(self) -> Mechanism:
        return self.calibration.mechanism

    def names(self, role: str) -> tuple[str | int, ...]:
        """Names of the random generator of a role: the same for every method, so that methods are paired by seed."""
        return ("dpgraph", self.cell.task.folder, role, self.seed)


@dataclass(frozen=True)
class Outcome:
    """What a method returns of one seed; metrics are not its business."""

    logits: np.ndarray  # (N, classes) float32, of the last step
    observations: list[Observation]  # what `observe` returned, unread
    statement: PrivacyStatement
    steps_per_second: float
    roots_per_second: float
    peak_memory_bytes: int
    exposure: Exposure | None = None  # what attacks on the parameters may use; None: the method offers nothing
    notes: dict[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """A class per method; the first line of its docstring is what `python -m dpgraph list methods` shows.

    Its mechanism is that of the cell (privacy/for_cell.py), solved before it runs. The name of a private method starts
    with "dp-".
    """

    private: bool

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed; calls `observe` at the cell's evaluation points, the last step included."""


@runtime_checkable
class StackedMethod(Method, Protocol):
    """A method that can train all seeds of a cell at once, each as if it were alone."""

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        """Whether it does so for this cell on this device: where it is no faster, seeds are processes of their own."""

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        """`jobs` differ in their seeds only and share one checkpoint; a seed that diverges leaves the others alone."""
