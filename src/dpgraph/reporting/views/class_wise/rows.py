"""Accuracy of each class, classes ordered by their frequency in the training data (Daigavane et al., Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import beside, described
from dpgraph.reporting.results import EntryResult, Results, summarise

Counts = Mapping[str, np.ndarray]  # (classes,) labelled training nodes, by task id
NO_COUNTS = "class frequencies are not known: the graph is not there"


@dataclass(frozen=True)
class ClassValues:
    """Test accuracy by class of one entry, in percent.

    `accuracy` has a row per seed and a column per class that the test nodes of every seed have, most frequent in
    training first; `frequency` holds these classes' training nodes, of the first split. Both are empty where
    `outcome`, the overall accuracy, is not ok.
    """

    entry: Entry
    outcome: EntryResult
    accuracy: pd.DataFrame
    frequency: np.ndarray


EMPTY = pd.DataFrame(), np.array([], dtype=np.int64)


def class_values(plan: Plan, artefact_id: str, results: Results, counts: Counts) -> list[ClassValues]:
    """One per entry of the artefact, in its order."""
    return [_values(plan, entry, results, counts.get(entry.task_id)) for entry in plan.entries_of(artefact_id)]


def _values(plan: Plan, entry: Entry, results: Results, counts: np.ndarray | None) -> ClassValues:
    outcome = results.outcome(entry, plan.artefacts[entry.artefact].metric)
    if not outcome.ok:
        return ClassValues(entry, outcome, *EMPTY)
    if counts is None:
        return ClassValues(entry, EntryResult.not_run(NO_COUNTS), *EMPTY)
    accuracy = 100 * results.by_class(entry).dropna(axis=1)
    if accuracy.empty:
        return ClassValues(entry, EntryResult.not_run("no accuracy by class"), *EMPTY)
    classes = accuracy.columns.to_numpy(int)
    order = classes[np.lexsort((classes, -counts[classes]))]
    return ClassValues(entry, outcome, accuracy[order], counts[order])


def class_wise_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None, counts: Counts) -> pd.DataFrame:
    """What the figure shows: per entry a row for each class, by `rank` (1: most frequent), and one with class_id -1.

    That one has the accuracy over all test nodes. Mean, std and 95 % interval are over seeds, in percent.
    """
    parts = [_points(values) for values in class_values(plan, artefact_id, Results.of(results), counts)]
    return pd.concat(parts, ignore_index=True)


def _points(values: ClassValues) -> pd.DataFrame:
    total = {"class_id": -1, "rank": 0, "train_nodes": int(values.frequency.sum())}
    rows = [total | values.outcome.summary().columns]
    for rank, (name, nodes) in enumerate(zip(values.accuracy, values.frequency), 1):
        own = summarise(values.accuracy[name].to_numpy(), scale=1.0)
        rows.append({"class_id": int(name), "rank": rank, "train_nodes": int(nodes)} | own.columns)
    return beside(described(values.entry, values.outcome), pd.DataFrame(rows))
