"""Shares of hard cases: test nodes that a reference misclassifies and another run, too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.stored import Predictions
from dpgraph.reporting.views.registry import Derived, DerivedMetric


def hard_case_share(wrong: np.ndarray, hard: np.ndarray) -> float:
    """|errors of the run and hard cases| / |hard cases| (Igamberdiev and Habernal, App. E); nan without hard cases.

    Errors that have nothing to do with the hard cases give the run's error rate.

    >>> hard_case_share(np.array([True, True, False]), np.array([True, False, True]))
    0.5
    """
    return float((wrong & hard).sum() / hard.sum()) if hard.any() else np.nan


def metrics(plan: Plan) -> Derived:
    return hard_case_shares(plan, Predictions(plan))


def hard_case_shares(plan: Plan, predictions: Predictions) -> Derived:
    """Return the share of every view hard-cases under its metric, `hard_cases/<artefact>`.

    Runs are paired seed by seed. The reference itself is paired with its next seed: its own errors would give 1,
    another seed's say how far hard cases are a matter of the data, not of the draw. Where seeds have splits of their
    own, those two are compared on the nodes that both were tested on.
    """
    shares: Derived = {}
    for name, artefact in plan.artefacts.items():
        if artefact.view != "hard-cases":
            continue
        for entry in plan.entries_of(name):
            for seed, share in _shares(plan, entry, predictions):
                place = entry.paper, entry.cell.slug, seed
                shares.setdefault(place, []).append(DerivedMetric(str(artefact.metric), share))
    return shares


def _shares(plan: Plan, entry: Entry, predictions: Predictions) -> Iterator[tuple[int, float]]:
    reference = plan.reference_entry(entry)
    if reference is None:
        return
    seeds = entry.cell.seeds
    own = reference.cell.slug == entry.cell.slug
    for index, seed in enumerate(seeds):
        other = seeds[(index + 1) % len(seeds)] if own else seed
        errors = predictions.wrong_both(entry, seed, reference, other)
        if errors is None or (own and other == seed):
            continue
        share = hard_case_share(*errors)
        if not np.isnan(share):
            yield seed, share
