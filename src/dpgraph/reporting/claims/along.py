"""Claims on a metric along the steps of training: it rises, then falls."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from dpgraph.reporting.claims.comparing import at_target
from dpgraph.reporting.claims.contrasts import contrast
from dpgraph.reporting.claims.verdicts import Comparison, Comparisons, Place, all_hold, compared
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import Results

FEWEST = 3  # evaluations: the ends and one between


def compare_along(label: str, known: list[Place], metric: str, results: Results, comparisons: Comparisons) -> None:
    """Adds `rise-and-fall` of each place on the data set `label`, or why there is nothing to compare."""
    for entry, outcome in known:
        where = f"{label}, {entry.method_id}{at_target(entry.epsilon)}"
        if not outcome.ok:
            comparisons.missing.append(f"{where}: {outcome.why_not}")
            continue
        looks = {step: one.shown_by_seed for step, one in results.along_training(entry, metric)}
        made = rise_and_fall(where, pd.DataFrame(looks), quantity(metric).difference)
        if made is None:
            comparisons.missing.append(f"{where}: fewer than {FEWEST} evaluations at which all seeds have a value")
            continue
        comparisons.use((entry, outcome))
        comparisons.made.append(made)


def rise_and_fall(where: str, by_step: pd.DataFrame, unit: str) -> Comparison | None:
    """Of values in the unit that is shown, a row for each seed and a column for each step; None for too few steps.

    A seed's value at the peak is that at the step between the ends with the highest mean of all other seeds; with one
    seed the step is its own, and nothing is tested.
    """
    whole = by_step.dropna(axis=1).sort_index(axis=1)
    if whole.shape[1] < FEWEST:
        return None
    inside = whole.iloc[:, 1:-1]
    others = {seed: inside.drop(index=seed) if len(inside) > 1 else inside for seed in inside.index}
    peak = pd.Series({seed: inside.loc[seed, rest.mean().idxmax()] for seed, rest in others.items()})
    top, first, last = inside.mean().idxmax(), whole.columns[0], whole.columns[-1]
    parts = [
        compared(
            f"{where}, peak (about step {top}) minus step {end}",
            replace(contrast([(1.0, "peak", peak), (-1.0, "end", whole[end])]), unit=unit),
            0.0,
        )
        for end in (first, last)
    ]
    return all_hold(parts)
