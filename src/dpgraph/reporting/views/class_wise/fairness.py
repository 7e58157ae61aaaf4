"""What privacy does to rare classes: worst class, gaps between classes, and correlation of the loss with frequency."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import counterparts, described
from dpgraph.reporting.results import Results, over_seeds
from dpgraph.reporting.views.class_wise.rows import ClassValues, Counts, class_values

MEASURES = ("accuracy", "worst_class", "best_minus_worst", "frequent_minus_rare", "loss_correlation")


def fairness_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None, counts: Counts) -> pd.DataFrame:
    """One row per entry of a class-wise artefact; each measure has a mean and a std over seeds.

    accuracy: of all test nodes. worst_class: the lowest class accuracy. best_minus_worst: range over classes.
    frequent_minus_rare: mean accuracy of the most frequent third of the classes minus that of the rarest.
    loss_correlation: Spearman's correlation over classes of training frequency with the accuracy that privacy costs,
    accuracy(without privacy) - accuracy(private) of the same seed; below 0 where rarer classes lose more. Accuracies in
    percent, differences in points.
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
    """Per seed."""
    accuracy = values.accuracy.to_numpy(float)
    if not accuracy.size:
        return {name: np.array([]) for name in MEASURES}
    third = max(1, accuracy.shape[1] // 3)
    loss = np.array([]) if reference is None else rank_correlations(values, reference, "loss")
    return {
        "accuracy": 100 * values.outcome.values.to_numpy(float),
        "worst_class": accuracy.min(axis=1),
        "best_minus_worst": np.ptp(accuracy, axis=1),
        "frequent_minus_rare": accuracy[:, :third].mean(axis=1) - accuracy[:, -third:].mean(axis=1),
        "loss_correlation": loss[~np.isnan(loss)],
    }


def rank_correlations(values: ClassValues, reference: ClassValues, of: str) -> np.ndarray:
    """Spearman's correlation over classes of training frequency with loss or accuracy, one per seed that both have.

    nan for a seed whose values do not vary over classes, and where there are fewer than three classes.
    """
    compared = class_changes(values, reference, of)
    if compared.shape[1] < 3:
        return np.full(len(compared), np.nan)
    ranks = rankdata(compared, axis=1)
    frequency = rankdata(values.frequency)
    ranks, frequency = ranks - ranks.mean(axis=1, keepdims=True), frequency - frequency.mean()
    scale = np.sqrt((ranks**2).sum(axis=1) * (frequency**2).sum())
    return np.divide(ranks @ frequency, scale, out=np.full(len(compared), np.nan), where=scale > 0)


def class_changes(values: ClassValues, reference: ClassValues, of: str) -> np.ndarray:
    """(seeds that both have, classes) points of accuracy lost to the reference; with `of` accuracy the accuracy."""
    own, other = values.accuracy, reference.accuracy
    if own.empty or other.empty:
        return np.zeros((0, 0))
    seeds = own.index.intersection(other.index)  # the test nodes, and so the classes, are the same in both
    compared = own.loc[seeds] if of == "accuracy" else other.loc[seeds, own.columns] - own.loc[seeds]
    return compared.to_numpy(float)
