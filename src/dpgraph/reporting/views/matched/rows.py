"""A metric of each run beside its accuracy, so that methods can be compared where they are equally accurate."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import described, of_entry
from dpgraph.reporting.results import Results

ACCURACY = "accuracy/test"


def matched_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry: mean, std and 95 % interval of the artefact's metric, and of test accuracy (`accuracy_`)."""
    known, metric, rows = Results.of(results), plan.artefacts[artefact_id].metric, []
    for entry in plan.entries_of(artefact_id):
        outcome, accuracy = known.outcome(entry, metric), known.outcome(entry, ACCURACY).summary()
        row = described(entry, outcome) | {"value": of_entry(entry, "value")["value"], "source": "ours"}
        row |= outcome.summary().columns | {f"accuracy_{name}": value for name, value in accuracy.columns.items()}
        rows.append(row | known.reference(entry, metric))
    return pd.DataFrame(rows)
