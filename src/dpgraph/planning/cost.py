"""What a cell will cost, from the registry's sizes and its settings: there is no data yet when jobs are planned."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from functools import cache
from typing import NamedTuple

from dpgraph.data.registry import entry
from dpgraph.experiments.cell import Cell, Task
from dpgraph.methods.cost import SECONDS_PER_STEP, SECONDS_TO_START, steps_of
from dpgraph.methods.registry import spec
from dpgraph.problems.base import Size
from dpgraph.problems.registry import problem_of


@cache
def size_of(task: Task) -> Size:
    return problem_of(task).size(task, entry(task.dataset))


class PlannedParts(NamedTuple):
    """Planned seconds of a cell on one CPU core, all seeds, by what they grow with."""

    starts: float  # the number of seeds
    steps: float  # the number of steps, whatever is in one
    work: float  # all else: data, network, evaluations

    @property
    def total(self) -> float:
        return sum(self)


def train_seconds(cell: Cell) -> float:
    """Estimate for all seeds on one CPU core."""
    return len(cell.seeds) * spec(cell.method).seconds(cell, size_of(cell.task))


def parts_of(cells: Iterable[Cell]) -> list[PlannedParts]:
    """Of cells that are trained in this order: what several share counts for the first that needs it."""
    done: set[Hashable] = set()
    found = []
    for cell in cells:
        total, size, shared = train_seconds(cell), size_of(cell.task), spec(cell.method).shared
        for seed in cell.seeds if shared is not None else ():
            name, seconds = shared(cell, size, seed)  # type: ignore[misc]
            if name in done:
                total -= seconds
            done.add(name)
        starts = min(len(cell.seeds) * SECONDS_TO_START, total)
        steps = min(len(cell.seeds) * SECONDS_PER_STEP * steps_of(cell.training), total - starts)
        found.append(PlannedParts(starts, steps, total - starts - steps))
    return found


def memory_mb(task: Task) -> int:
    """Of a job that trains or prepares the task's data: libraries, and the data with three copies for work on it."""
    return math.ceil(1500 + 4 * size_of(task).megabytes)
