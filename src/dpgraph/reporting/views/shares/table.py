"""Which part of a budget goes where, as people read it."""

from __future__ import annotations

import math

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, MadeTable, RowGroup, Table, Text, target_cell
from dpgraph.reporting.views.shares.rows import CHOICE, PARTS, RECEIVERS, TRAINING, shares_table

SHARES = (TRAINING, *PARTS, RECEIVERS, CHOICE)
REMARKS = [
    "Shares in percent of the squared μ of the Gaussian parts that a voter pays for; those of degrees, which receivers "
    "pay, are of the same whole, and those of a choice of ε. —: no such part.",
    "Shares are ratios of noise: the accountant composes what ran, and solves for the noise at the target ε.",
]


def make(plan: Plan, artefact_id: str, _: object) -> MadeTable:
    frame = shares_table(plan, artefact_id)
    return MadeTable(frame, shares_display(heading(plan, artefact_id), frame))


def shares_display(title: str, frame: pd.DataFrame) -> Table:
    """From `shares_table`: a block per task; columns that are empty everywhere are left out."""
    shown = [name for name in SHARES if not frame[name].isna().all()]
    blocks = [
        RowGroup(
            str(part["task_label"].iloc[0]),
            [
                [
                    Text(row["label"]),
                    target_cell(row),
                    Text(formats.count(row["steps"])),
                    *(Text(DASH if math.isnan(row[name]) else f"{row[name]:.1f}") for name in shown),
                ]
                for row in part.to_dict("records")
            ],
        )
        for _, part in frame.groupby("task", sort=False)
    ]
    return Table(title, ["Method", "Target ε", "Steps", *shown], blocks, [], REMARKS)
