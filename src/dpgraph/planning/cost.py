"""What a cell will cost, from the registry's sizes and its settings: there is no data yet when jobs are planned."""

from __future__ import annotations

import math
from functools import cache

from dpgraph.data.registry import entry
from dpgraph.experiments.cell import Cell, Task
from dpgraph.methods.registry import spec
from dpgraph.problems.base import Size
from dpgraph.problems.registry import problem_of


@cache
def size_of(task: Task) -> Size:
    return problem_of(task).size(task, entry(task.dataset))


def train_seconds(cell: Cell) -> float:
    """Estimate for all seeds on one CPU core."""
    return len(cell.seeds) * spec(cell.method).seconds(cell, size_of(cell.task))


def memory_mb(task: Task) -> int:
    """Of a job that trains or prepares the task's data: libraries, and the data with three copies for work on it."""
    return math.ceil(1500 + 4 * size_of(task).megabytes)
