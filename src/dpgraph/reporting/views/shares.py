"""Tables of the shares of a privacy budget."""

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, formats
from dpgraph.reporting.artefacts import heading, of_entry
from dpgraph.reporting.display import DASH, MadeTable, Table, Text

COLUMNS = ("paper", "artefact", "task", "task_label", "method", "label", "variant", "epsilon_target")
# heads of columns, and the settings with shares of the squared mu that a voter pays
PARTS = {
    "Mean of rows": "mean_share",
    "Votes": "votes_share",
    "Sums": "sums_share",
    "Hubs": "hub_share",
    "Reader": "reader_share",
}
RECEIVERS, CHOICE, TRAINING = "Degrees, by receivers", "Choice, of ε", "Training"


def shares_table(plan: Plan, artefact_id: str) -> pd.DataFrame:
    """Return a row per private entry, shares in percent; nan without the part, or where settings do not fix its share.

    Training gets the rest of the squared mu. The choice has a share of epsilon instead: the accountant adds it to the
    composition of the other parts.
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


SHARES = (TRAINING, *PARTS, RECEIVERS, CHOICE)
REMARKS = [
    "Percent of the squared μ of the Gaussian parts that a voter pays for. Receivers pay for degrees, as a share of "
    "the same total; a choice has a share of ε. –: no such part.",
    "Shares fix ratios of noise: the accountant composes the mechanism and solves for the noise at the target ε.",
]


def make(plan: Plan, artefact_id: str, _: object) -> MadeTable:
    """Make the table of shares of the budget, a block per task; empty columns are left out."""
    frame = shares_table(plan, artefact_id)
    shown = [name for name in SHARES if not frame[name].isna().all()]
    blocks = display.by_task(
        frame,
        lambda row: [
            Text(row["label"]),
            display.target_cell(row),
            Text(formats.count(row["steps"])),
            *(Text(DASH if math.isnan(row[name]) else f"{row[name]:.1f}") for name in shown),
        ],
        lambda part: str(part["task_label"].iloc[0]),
    )
    columns = ["Method", "Target ε", "Steps", *shown]
    return MadeTable(frame, Table(heading(plan, artefact_id), columns, blocks, [], REMARKS))
