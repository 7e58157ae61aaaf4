"""What a cell will cost, from the registry's sizes and its settings: there is no data yet when jobs are planned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from dpgraph.data.registry import entry
from dpgraph.experiments.cell import Cell, Task

STEPS_IF_OPEN = 2000  # of a cell that trains as long as its budget lasts
FLOPS_PER_SECOND = 20e9  # float32 on one CPU core
SECONDS_PER_STEP = 1.5e-3  # what a step costs whatever its size


@dataclass(frozen=True)
class Size:
    """What the registry expects of a task's graph; guesses where it says nothing."""

    nodes: int
    entries: int
    features: int
    classes: int
    train_nodes: int

    @property
    def megabytes(self) -> float:
        """Features in float32; both directions of the edges as indices and weights."""
        return (4 * self.nodes * self.features + 24 * self.entries) / 2**20


@cache
def size_of(task: Task) -> Size:
    expected = entry(task.dataset).expected
    nodes = expected.nodes or 20_000
    entries = expected.entries if expected.entries is not None else round((expected.mean_degree or 10) * nodes)
    features = expected.features or 2_000
    if task.features.startswith("project-"):
        features = min(features, int(task.features.removeprefix("project-")))
    train = round(0.7 * nodes)
    if expected.split is not None:
        train = expected.split[0] if task.split == "public" else nodes - sum(expected.split[1:])
    if task.split.startswith(("random-", "ratio-")):
        train = nodes * int(task.split.split("-")[1]) // 100
    return Size(nodes, entries, features, expected.classes or 10, max(train, 1))


def train_seconds(cell: Cell) -> float:
    """Estimate for all seeds on one CPU core, from the products with weight matrices that the steps need."""
    size, model, training = size_of(cell.task), cell.model, cell.training
    first = size.features * model.width
    others = model.encoder_layers + model.decoder_layers + model.hops - 1
    rest = others * model.width**2 + model.width * size.classes
    roots = training.roots_per_step(size.train_nodes)
    nodes = roots if model.architecture == "kipf" else roots * _tree(cell, size)
    steps = STEPS_IF_OPEN if training.steps == "max" else training.steps
    step = SECONDS_PER_STEP + nodes * (4 * first + 6 * rest) / FLOPS_PER_SECOND
    look = size.nodes * 2 * (first + rest) / FLOPS_PER_SECOND
    return len(cell.seeds) * (0.5 + steps * step + training.evaluations * look)


def _tree(cell: Cell, size: Size) -> float:
    """Nodes that a root's prediction reads: 1 + K + ... + K^r, K no longer than a mean list."""
    degree = size.entries / size.nodes
    caps = (
        getattr(cell.privacy, "list_cap", None),
        getattr(cell.privacy, "max_degree", None),
        getattr(cell.training, "max_degree", None),
    )
    cap = next((value for value in caps if value is not None), None)
    if cap is not None:
        degree = min(degree, cap)
    return sum(degree**hop for hop in range(cell.model.hops + 1))


def memory_mb(task: Task) -> int:
    """Of a job that trains or prepares the task's graph: libraries, and the graph with three copies for work on it."""
    return math.ceil(1500 + 4 * size_of(task).megabytes)
