"""A run: a cell with all that its names stand for, resolved once, and its files.

The plan resolves the cells of a suite, a job those of its bundle (pipeline/run_files.py). All that follows reads the
run and does not look its method up again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgraph.config.cell import Cell
from dpgraph.config.paths import Paths
from dpgraph.engine.methods.spec import MethodSpec
from dpgraph.families.registry import spec
from dpgraph.planning.resolve import Target, calibrate_to, mechanism_for, target_of
from dpgraph.privacy.calibration import Calibration, is_answer
from dpgraph.privacy.mechanisms.base import Mechanism, NoisySteps
from dpgraph.privacy.mechanisms.none import NonPrivate
from dpgraph.problems.base import Counts, Problem
from dpgraph.problems.registry import problem_of


@dataclass(frozen=True)
class RunPaths:
    """The files of a run: its graph, its calibration, and the folder of its record."""

    graph: Path = Path()  # a folder
    out: Path = Path()  # a folder
    calibration: Path | None = None  # None: no privacy, or it is calibrated when it is trained

    @classmethod
    def in_suite(cls, paths: Paths, cell: Cell) -> RunPaths:
        """Return the files of a suite's cell."""
        return cls(paths.graph(cell.task), paths.cell(cell), paths.calibration(cell))


@dataclass(frozen=True)
class Run:
    """A cell, its method, its problem, the class of its mechanism, its target epsilon, and its files."""

    cell: Cell
    spec: MethodSpec
    problem: Problem
    mechanism: type[NoisySteps] | type[NonPrivate]
    target: Target
    paths: RunPaths

    @classmethod
    def resolve(cls, cell: Cell, paths: RunPaths | None = None, known: MethodSpec | None = None) -> Run:
        """Resolve a cell; `known` is its method's specification, if it was looked up before."""
        known = known or spec(cell.method)
        mechanism, target = known.mechanism_class(cell), target_of(cell, known)
        return cls(cell, known, problem_of(cell.task), mechanism, target, paths or RunPaths())

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the cell to another process, which resolves it there: functions of a specification cannot be sent."""
        return Run.resolve, (self.cell, self.paths)

    def open_mechanism(self, counts: Counts) -> Mechanism:
        """Return the mechanism on data of these public counts; what the cell leaves open is None."""
        return mechanism_for(self.cell, counts.num_train, counts.num_protected, known=self.spec)

    def calibrate(self, counts: Counts, **options: Any) -> Calibration:
        """Return the noise or steps that meet the target; `options` as of `calibrated`."""
        return calibrate_to(self.target, self.open_mechanism(counts), **options)

    def accepts(self, stored: Calibration, counts: Counts) -> bool:
        """Return whether `stored` is what `calibrate` gives; evaluates no accountant."""
        target, mechanism = self.target, self.open_mechanism(counts)
        return is_answer(stored, mechanism, target.mode, target.unknown, epsilon=target.target_epsilon)


@dataclass(frozen=True)
class CalibratedRun:
    """A run whose noise is known, with what each of its seeds needs."""

    run: Run
    calibration: Calibration
    counts: Counts  # for which it was calibrated
    fingerprint: str  # of the cell, its mechanism with its noise, its graph and the code
    device: str

    @property
    def steps(self) -> int:
        """Return the number of all steps."""
        return self.calibration.statement.steps
