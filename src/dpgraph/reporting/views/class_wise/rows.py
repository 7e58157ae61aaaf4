"""Accuracy by class, ordered by frequency in training, in long form (Daigavane et al., Figure 4)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import EntryRun, counterparts, described, prepend_columns
from dpgraph.reporting.results import EntryResult, Results, over_seeds, summarise

Counts = Mapping[str, np.ndarray]  # (classes,) labelled training nodes, by task id
NO_COUNTS = "class frequencies are not known: the graph is not there"


@dataclass(frozen=True)
class ClassValues(EntryRun):
    """Test accuracy by class of one entry, in percent.

    `accuracy` has a row per seed and a column per class that the test nodes of every seed have, most frequent in
    training first; `frequency` holds these classes' training nodes, of the first split. Both are empty where
    `outcome`, the overall accuracy, is not ok.
    """

    accuracy: pd.DataFrame
    frequency: np.ndarray


EMPTY = pd.DataFrame(), np.array([], dtype=np.int64)


def class_values(plan: Plan, artefact_id: str, results: Results, counts: Counts) -> list[ClassValues]:
    """Return the accuracies of each entry of the artefact, in its order."""
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
    """Return the points of the figure: for each entry a row per class, by `rank` (1: most frequent).

    A row with class_id -1 has the accuracy over all test nodes. Mean, std and 95 % interval are over seeds, in percent.
    """
    parts = [_points(values) for values in class_values(plan, artefact_id, Results.of(results), counts)]
    return pd.concat(parts, ignore_index=True)


def _points(values: ClassValues) -> pd.DataFrame:
    total = {"class_id": -1, "rank": 0, "train_nodes": int(values.frequency.sum())}
    rows = [total | values.outcome.summary().columns]
    for rank, (name, nodes) in enumerate(zip(values.accuracy, values.frequency), 1):
        own = summarise(values.accuracy[name].to_numpy(), scale=1.0)
        rows.append({"class_id": int(name), "rank": rank, "train_nodes": int(nodes)} | own.columns)
    return prepend_columns(described(values.entry, values.outcome), pd.DataFrame(rows))


MEASURES = ("accuracy", "worst_class", "best_minus_worst", "frequent_minus_rare", "loss_correlation")


def fairness_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None, counts: Counts) -> pd.DataFrame:
    """Return one row per entry of a class-wise artefact; each measure has a mean and a std over seeds.

    Accuracies are in percent, differences in points:
    - accuracy: over all test nodes.
    - worst_class: the lowest class accuracy.
    - best_minus_worst: the range over classes.
    - frequent_minus_rare: mean accuracy of the most frequent third of the classes minus that of the rarest third.
    - loss_correlation: Spearman's correlation over classes between training frequency and loss, which is
      accuracy(without privacy) - accuracy(private) of the same seed; below 0 where rarer classes lose more.
    """
    entries = class_values(plan, artefact_id, Results.of(results), counts)
    places = {(values.entry.method_id, values.entry.task_id): values for values in entries}
    references = counterparts(values.entry for values in entries)
    rows = []
    for values in entries:
        reference = places.get((references.get(values.entry.method_id, ""), values.entry.task_id))
        row = described(values.entry, values.outcome) | {"classes": values.accuracy.shape[1]}
        row["reference"] = reference.entry.method_id if reference else ""
        for name, per_seed in _measures(values, reference).items():
            row |= over_seeds(name, per_seed)
        rows.append(row)
    return pd.DataFrame(rows)


def _measures(values: ClassValues, reference: ClassValues | None) -> dict[str, np.ndarray]:
    """Return the values of each measure, one per seed."""
    accuracy = values.accuracy.to_numpy(float)
    if not accuracy.size:
        return {name: np.array([]) for name in MEASURES}
    third = max(1, accuracy.shape[1] // 3)
    loss = np.array([]) if reference is None else rank_correlations(values, reference)
    return {
        "accuracy": 100 * values.outcome.values.to_numpy(float),
        "worst_class": accuracy.min(axis=1),
        "best_minus_worst": np.ptp(accuracy, axis=1),
        "frequent_minus_rare": accuracy[:, :third].mean(axis=1) - accuracy[:, -third:].mean(axis=1),
        "loss_correlation": loss[~np.isnan(loss)],
    }


def rank_correlations(values: ClassValues, reference: ClassValues) -> np.ndarray:
    """Return Spearman's correlation over classes of training frequency with loss, by common seed.

    It is nan where the losses of a seed do not vary over classes, and for fewer than three classes.
    """
    compared = class_losses(values, reference)
    if compared.shape[1] < 3:
        return np.full(len(compared), np.nan)
    return pd.DataFrame(compared).corrwith(pd.Series(values.frequency), axis=1, method="spearman").to_numpy()


def class_losses(values: ClassValues, reference: ClassValues) -> np.ndarray:
    """Return (common seeds, classes) points of accuracy lost to the reference."""
    own, other = values.accuracy, reference.accuracy
    if own.empty or other.empty:
        return np.zeros((0, 0))
    seeds = own.index.intersection(other.index)  # the test nodes, and so the classes, are the same in both
    return (other.loc[seeds, own.columns] - own.loc[seeds]).to_numpy(float)
