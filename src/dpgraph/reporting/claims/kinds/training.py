"""Claims along the steps of training: rise-and-fall."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from dpgraph.config.claim_tests import RiseAndFall
from dpgraph.reporting.claims.comparing import ClaimKind, DataSet, PaperResults, at_target, each, on_each
from dpgraph.reporting.claims.contrasts import contrast
from dpgraph.reporting.claims.verdicts import Comparison, Comparisons, all_hold, compared
from dpgraph.reporting.quantities import quantity

FEWEST = 3  # evaluations: the ends and one between


def compare_along(test: RiseAndFall, of: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add `rise_and_fall` of each place of the data set, or why it cannot be compared."""
    metric = of.plan.artefacts[of.full_name(test.artefact)].metric
    for entry, outcome in data.places(test.artefact):
        where = f"{data.label}, {entry.method_id}{at_target(entry.target_epsilon)}"
        if not outcome.ok:
            comparisons.missing.append(f"{where}: {outcome.why_not}")
            continue
        looks = {step: one.shown_by_seed for step, one in of.results.along_training(entry, metric)}
        made = rise_and_fall(where, pd.DataFrame(looks), quantity(metric).difference)
        if made is None:
            comparisons.missing.append(f"{where}: fewer than {FEWEST} evaluations at which all seeds have a value")
            continue
        comparisons.use((entry, outcome))
        comparisons.made.append(made)


def rise_and_fall(where: str, by_step: pd.DataFrame, unit: str) -> Comparison | None:
    """Return the comparisons of the peak with both ends; None for too few steps.

    by_step: values in the unit that is shown, a row for each seed and a column for each step.

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


KINDS = (
    ClaimKind(
        RiseAndFall,
        on_each(compare_along),
        lambda test: f"in {test.artefact} {each(test.methods)} is higher at some evaluation than at its first and last",
        lambda test: f"in {test.artefact} the first or the last evaluation is higher than all between",
    ),
)
