"""Confusions of each run as metrics: test nodes of a class that were taken for each class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpgraph.planning.plan import Plan
from dpgraph.reporting.stored import Predictions
from dpgraph.reporting.views.registry import Derived, DerivedMetric

TAKEN_FOR = "taken_for"
NO_CLASS = -1


def metrics(plan: Plan) -> Derived:
    predictions, found = Predictions(plan), Derived()
    for name, artefact in plan.artefacts.items():
        for entry in plan.entries_of(name) if artefact.view == "confusion" else ():
            for seed in entry.cell.seeds:
                tested, predicted = predictions.tested(entry, seed), predictions.predicted(entry, seed)
                if tested is not None and predicted is not None:
                    found[entry.paper, entry.cell.slug, seed] = list(taken_for(tested[1], predicted))
    return found


def taken_for(labels: np.ndarray, predicted: np.ndarray) -> Iterator[DerivedMetric]:
    """Yield `taken_for/<predicted>` of each true class: how many of its test nodes, where there are any."""
    pairs, counts = np.unique(np.stack([labels, predicted]), axis=1, return_counts=True)
    for true, other, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
        yield DerivedMetric(f"{TAKEN_FOR}/{max(other, NO_CLASS)}", float(count), true)
