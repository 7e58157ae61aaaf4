"""Hard cases: test nodes that a reference misclassifies, and the share of them that another run misclassifies, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpgraph.data.records import TEST
from dpgraph.data.store import load_graph
from dpgraph.errors import DataUnavailable, UserError
from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import Entry, Plan

REMEDY = "delete result.json beside it and train the cell again"


class Predictions:
    """Predicted classes of the labelled test nodes; labels and every file are read once."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.paths = plan, Paths(plan.config)
        self._tested: dict[str, tuple[np.ndarray, np.ndarray] | None] = {}
        self._wrong: dict[Path, np.ndarray | None] = {}

    def tested(self, task_id: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(test nodes with a label, their labels); None: the graph is not there."""
        if task_id not in self._tested:
            try:
                graph = load_graph(self.paths.graph(self.plan.task(task_id)))
            except (DataUnavailable, UserError):
                self._tested[task_id] = None
            else:
                nodes = np.flatnonzero((np.asarray(graph.split) == TEST) & (np.asarray(graph.labels) >= 0))
                self._tested[task_id] = (nodes, np.asarray(graph.labels)[nodes])
        return self._tested[task_id]

    def predicted(self, entry: Entry, seed: int) -> np.ndarray | None:
        """(test nodes,) class after the last step, -1 for none; None: the seed has no predictions."""
        tested, path = self.tested(entry.task_id), self.paths.predictions(entry.cell, seed)
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
        """(test nodes,) whether the run misclassifies the node."""
        path = self.paths.predictions(entry.cell, seed)
        if path not in self._wrong:
            found, tested = self.predicted(entry, seed), self.tested(entry.task_id)
            self._wrong[path] = None if found is None or tested is None else found != tested[1]
        return self._wrong[path]


def hard_case_share(wrong: np.ndarray, hard: np.ndarray) -> float:
    """|errors of the run and hard cases| / |hard cases| (Igamberdiev and Habernal, App. E); nan without hard cases.

    Errors that have nothing to do with the hard cases give the run's error rate.

    >>> hard_case_share(np.array([True, True, False]), np.array([True, False, True]))
    0.5
    """
    return float((wrong & hard).sum() / hard.sum()) if hard.any() else np.nan


def hard_case_remark(plan: Plan, artefact_id: str) -> str:
    """What a hard case is, for the foot of a figure or table; empty for another view."""
    artefact = plan.artefacts[artefact_id]
    if artefact.view != "hard-cases":
        return ""
    methods = plan.experiments[artefact_id.split("/")[0]].methods
    names = dict.fromkeys(methods[str(artefact.reference_of(method))].label for method in artefact.methods)
    at = "" if artefact.reference_value is None else f" at {artefact.reference_value}"
    return (
        f"Hard cases: test nodes that {' or '.join(names)}{at} misclassifies, of the same seed; that run itself stands "
        "beside its next seed. Errors that have nothing to do with them give a run’s error rate."
    )


def hard_case_shares(plan: Plan, predictions: Predictions) -> dict[tuple[str, str, int], dict[str, float]]:
    """By paper, cell and seed: the share of every view hard-cases under its metric, `hard_cases/<artefact>`.

    Runs are paired seed by seed. The reference itself is paired with its next seed: its own errors would give 1,
    another seed's say how far hard cases are a matter of the data, not of the draw.
    """
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for name, artefact in plan.artefacts.items():
        if artefact.view != "hard-cases":
            continue
        for entry in plan.entries_of(name):
            for seed, share in _shares(plan, entry, predictions):
                found.setdefault((entry.paper, entry.cell.slug, seed), {})[artefact.metric] = share
    return found


def _shares(plan: Plan, entry: Entry, predictions: Predictions) -> Iterator[tuple[int, float]]:
    reference = plan.reference_entry(entry)
    if reference is None:
        return
    seeds = entry.cell.seeds
    own = reference.cell.slug == entry.cell.slug
    for index, seed in enumerate(seeds):
        other = seeds[(index + 1) % len(seeds)] if own else seed
        wrong, hard = predictions.wrong(entry, seed), predictions.wrong(reference, other)
        if wrong is None or hard is None or (own and other == seed):
            continue
        share = hard_case_share(wrong, hard)
        if not np.isnan(share):
            yield seed, share
