"""Confusions: which classes a run takes for which, and the largest confusions of a reference beside those of others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import beside, described
from dpgraph.reporting.results import EntryResult, Results
from dpgraph.reporting.views.confusion.derived import TAKEN_FOR

LARGEST = 10  # confusions that a table lists for each task
NO_PREDICTIONS = "no predictions: the graph or the files of the seeds are not there"


@dataclass(frozen=True)
class Confusion:
    """Of one entry: `shares[seed, true, predicted]` of the test nodes of each class; the last column is "no class".

    Rows of classes without test nodes are nan. `support` holds the classes' test nodes, their mean over seeds. Both are
    empty where `outcome`, the overall accuracy, is not ok.
    """

    entry: Entry
    outcome: EntryResult
    shares: np.ndarray
    support: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """(classes, classes + 1), in percent."""
        return 100 * self.shares.mean(axis=0)


EMPTY = np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64)


def confusions(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Confusion]:
    """One per entry of the artefact, in its order."""
    known, metric = Results.of(results), plan.artefacts[artefact_id].metric
    return [_confusion(entry, known, known.outcome(entry, metric)) for entry in plan.entries_of(artefact_id)]


def _confusion(entry: Entry, known: Results, outcome: EntryResult) -> Confusion:
    if not outcome.ok:
        return Confusion(entry, outcome, *EMPTY)
    parts = [rows.assign(other=int(name)) for name, rows in known.parts(entry, TAKEN_FOR).items()]
    rows = pd.concat(parts) if parts else pd.DataFrame({"seed": [], "class_id": [], "other": []})
    if not set(outcome.values.index) <= set(rows["seed"]):
        return Confusion(entry, EntryResult.not_run(NO_PREDICTIONS), *EMPTY)
    classes = int(max(rows["class_id"].max(), rows["other"].max())) + 1
    counts = np.zeros((len(outcome.values), classes, classes + 1), dtype=np.int64)
    seeds = outcome.values.index.get_indexer(rows["seed"])
    counts[seeds, rows["class_id"], rows["other"]] = rows["value"]  # -1, no class, is the last column
    support = counts.sum(axis=2)
    with np.errstate(invalid="ignore"):
        shares = counts / support[:, :, None]
    return Confusion(entry, outcome, shares, np.rint(support.mean(axis=0)).astype(np.int64))


def confusion_points(made: list[Confusion]) -> pd.DataFrame:
    """A row per entry and pair of classes with a share above 0, in percent; one row with class -1 where nothing is."""
    parts = []
    for one in made:
        if not one.shares.size:
            rows = pd.DataFrame({"true_class": [-1], "predicted_class": -1, "test_nodes": 0, "share": math.nan})
        else:
            mean = one.mean
            std = 100 * one.shares.std(axis=0, ddof=1) if len(one.shares) > 1 else np.full(mean.shape, math.nan)
            true, predicted = np.nonzero(np.nan_to_num(mean) > 0)
            rows = pd.DataFrame(
                {
                    "true_class": true,
                    "predicted_class": np.where(predicted == len(one.support), -1, predicted),
                    "test_nodes": one.support[true],
                    "share": mean[true, predicted],
                    "share_std": std[true, predicted],
                }
            )
        parts.append(beside(described(one.entry, one.outcome), rows))
    return pd.concat(parts, ignore_index=True)


def largest(one: Confusion, count: int = LARGEST) -> list[tuple[int, int]]:
    """(true, predicted) of the largest shares off the diagonal, descending; equal ones by class."""
    mean = np.nan_to_num(one.mean)[:, :-1].copy()
    np.fill_diagonal(mean, 0.0)
    order = np.argsort(-mean, axis=None, kind="stable")[:count]
    pairs = [divmod(int(place), mean.shape[1]) for place in order]
    return [(true, predicted) for true, predicted in pairs if mean[true, predicted] > 0]


def wrong_classes(one: Confusion, true: int) -> float:
    """Effective number of wrong classes of a true class: exp of the entropy of its errors; nan without errors.

    1: all errors go to one class.
    """
    errors = np.delete(one.mean[true], true)
    total = errors.sum()
    if not total > 0:
        return math.nan
    shares = errors[errors > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))
