"""Read a suite's graphs, predictions of test nodes and exposures: its folders have more than results.parquet."""

from pathlib import Path

import numpy as np

from dpgraph.config.streams import split_number
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST
from dpgraph.data.store import load_graph
from dpgraph.planning.plan import Entry, Plan
from dpgraph.problems.node_classification.exposure import Exposure

NO_EXPOSURE = "no exposure: the method has none, or the files of the seeds are missing"
REMEDY = "delete result.json next to it and train the cell again"


def stored_graph(plan: Plan, task_id: str, split: int = 0) -> Graph | None:
    """Return the graph of a task with random split `split`; None: it is not stored."""
    try:
        return load_graph(plan.paths.graph(plan.task(task_id)), split=split)
    except (DataUnavailable, UserError):
        return None


def exposures_of(plan: Plan, entry: Entry, first: bool = False) -> dict[int, Exposure]:
    """Return what was exposed of training nodes by seed, of those that ended well, or of the first one alone."""
    paths = {seed: plan.paths.exposure(entry.cell, seed) for seed in entry.cell.seeds}
    there = {seed: path for seed, path in paths.items() if path.is_file()}
    return {seed: Exposure.load(path) for seed, path in list(there.items())[: 1 if first else None]}


class Predictions:
    """Predicted classes of the labelled test nodes of each seed's split; labels and every file are read once."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.paths = plan, plan.paths
        self._tested: dict[tuple[str, int], tuple[np.ndarray, np.ndarray] | None] = {}
        self._wrong: dict[Path, np.ndarray | None] = {}

    def tested(self, entry: Entry, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return (test nodes with a label, their labels) of the seed's split; None: the graph is not there."""
        place = entry.task_id, split_number(entry.cell, seed)
        if place not in self._tested:
            self._tested[place] = None
            if (graph := stored_graph(self.plan, *place)) is not None:
                nodes = np.flatnonzero((np.asarray(graph.split) == TEST) & (np.asarray(graph.labels) >= 0))
                self._tested[place] = (nodes, np.asarray(graph.labels)[nodes])
        return self._tested[place]

    def predicted(self, entry: Entry, seed: int) -> np.ndarray | None:
        """Return (test nodes,) class after the last step, -1 for none; None: the seed has no predictions."""
        tested, path = self.tested(entry, seed), self.paths.predictions(entry.cell, seed)
        if tested is None or not path.is_file():
            return None
        try:
            every = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError):
            raise UserError(f"{path}: damaged; {REMEDY}") from None
        if every.ndim != 1 or len(every) <= tested[0].max(initial=0):
            raise UserError(f"{path}: found shape {every.shape}, expected a class for every node; {REMEDY}")
        return np.asarray(every[tested[0]])

    def wrong(self, entry: Entry, seed: int) -> np.ndarray | None:
        """Return (test nodes,) bool: the run misclassifies the node."""
        path = self.paths.predictions(entry.cell, seed)
        if path not in self._wrong:
            predicted, tested = self.predicted(entry, seed), self.tested(entry, seed)
            self._wrong[path] = None if predicted is None or tested is None else predicted != tested[1]
        return self._wrong[path]

    def wrong_both(
        self, entry: Entry, seed: int, other: Entry, other_seed: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the errors of two runs on the nodes that both were tested on: all where they share a split."""
        errors = self.wrong(entry, seed), self.wrong(other, other_seed)
        tested = self.tested(entry, seed), self.tested(other, other_seed)
        if errors[0] is None or errors[1] is None or tested[0] is None or tested[1] is None:
            return None
        _, here, there = np.intersect1d(tested[0][0], tested[1][0], assume_unique=True, return_indices=True)
        return errors[0][here], errors[1][there]
