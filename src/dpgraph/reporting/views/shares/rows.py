"""Which part of a budget goes where, from the settings of a plan: nothing has to have run."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import of_entry

COLUMNS = ("paper", "artefact", "task", "task_label", "method", "label", "variant", "epsilon_target")
# heads of columns, with settings of privacy: shares of the squared mu that one party pays, and of epsilon
PARTS = {
    "Mean of rows": "mean_share",
    "Votes": "votes_share",
    "Sums": "sums_share",
    "Hubs": "hub_share",
    "Reader": "reader_share",
}
RECEIVERS, CHOICE, TRAINING = "Degrees, by receivers", "Choice, of ε", "Training"


def shares_table(plan: Plan, artefact_id: str) -> pd.DataFrame:
    """A row per private entry, shares in percent; nan: no such part, or a share that the settings do not fix.

    Training gets what parts of the squared mu leave. A share of epsilon is none of the squared mu: the accountant adds
    the choice to what the others compose to.
    """
    rows = []
    for entry in plan.entries_of(artefact_id):
        if (privacy := entry.cell.privacy) is None:
            continue
        parts = {head: _percent(getattr(privacy, name, None)) for head, name in PARTS.items()}
        choice = getattr(privacy, "choice_epsilon", None)
        fixed = "sums_share" not in type(privacy).model_fields or getattr(privacy, "sums_share", None) is not None
        own: dict[str, Any] = {
            TRAINING: 100 - sum(share for share in parts.values() if not math.isnan(share)) if fixed else math.nan,
            **parts,
            RECEIVERS: _percent(getattr(privacy, "degrees_share", None)),
            CHOICE: _percent(choice / privacy.epsilon if choice and privacy.epsilon else None),
            "steps": entry.cell.training.steps,
            "cell": entry.cell.slug,
        }
        rows.append({**of_entry(entry, *COLUMNS), **own})
    return pd.DataFrame(rows)


def _percent(share: float | None) -> float:
    return 100 * share if share else math.nan
