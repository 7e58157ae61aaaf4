"""Whether an accuracy is above chance: the share of the largest class of the test nodes, which needs no features."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.config.experiment import Artefact
from dpgraph.planning.plan import Entry
from dpgraph.reporting.claims.contrasts import LEVEL, contrast
from dpgraph.reporting.quantities import Quantity, quantity
from dpgraph.reporting.results import Results

METRIC = "majority/test"
LABEL = "share of the largest class of the test nodes"
HEAD = "Above chance?"
REMARK = (
    f"{HEAD} Chance: {LABEL}. One-sided t test of each seed's difference, Holm's correction over the rows of this "
    f"artefact, {100 * LEVEL:g} %; no: not shown to be above it."
)


def shown_as(artefact: Artefact) -> Quantity:
    """Return the artefact's quantity, with chance as its reference where the artefact wants it."""
    plain = quantity(artefact.metric)
    return replace(plain, reference=METRIC, reference_label=f"chance, the {LABEL}") if artefact.chance else plain


def chance_columns(entries: Sequence[Entry], results: Results, metric: str) -> list[dict[str, Any]]:
    """Return, by entry: reference (mean chance level, percent), p_chance (Holm's adjusted p-value) and above_chance.

    A test needs two seeds; above_chance is yes, no, or empty without a test.
    """
    levels, p_values = [], []
    for entry in entries:
        ours, chance = results.outcome(entry, metric), results.outcome(entry, METRIC)
        levels.append(chance.summary().mean if chance.ok else math.nan)
        known = ours.ok and chance.ok
        terms = [(1.0, "ours", ours.values), (-1.0, "chance", chance.values)]
        p_values.append(contrast(terms).p_above(0.0) if known else math.nan)
    adjusted = holm(np.array(p_values))
    return [
        {"reference": level, "p_chance": p, "above_chance": "" if math.isnan(p) else "yes" if p < LEVEL else "no"}
        for level, p in zip(levels, adjusted.tolist())
    ]


def holm(p_values: np.ndarray) -> np.ndarray:
    """Return Holm's adjusted p-values; nan stands for no test.

    >>> holm(np.array([0.01, np.nan, 0.04, 0.03])).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    adjusted = np.full(len(p_values), np.nan)
    places = np.flatnonzero(~np.isnan(p_values))
    order = places[np.argsort(p_values[places], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted
