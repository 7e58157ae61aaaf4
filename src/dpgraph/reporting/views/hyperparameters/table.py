"""Hyper-parameters as people read them: a block per data set, ours and below it the paper's row."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, NOT_IN_PAPER, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.views.hyperparameters.rows import CALIBRATED, SETTINGS, hyperparameter_table


def make(plan: Plan, artefact_id: str, _: object) -> MadeTable:
    frame = hyperparameter_table(plan, artefact_id)
    return MadeTable(frame, hyperparameter_display(heading(plan, artefact_id), frame))


def hyperparameter_display(title: str, frame: pd.DataFrame) -> Table:
    """From `hyperparameter_table`; what differs from the paper is marked."""
    blocks = []
    for _, part in frame.groupby("task", sort=False):
        rows: list[list[Text]] = []
        for _, of_method in part.groupby(["method", "epsilon_target"], sort=False, dropna=False):
            by_setting = of_method.set_index("setting").loc[list(SETTINGS)].to_dict("records")
            ours = [f"{one['ours'] or DASH}{' *' if one['agrees'] == 'no' else ''}" for one in by_setting]
            theirs = [one["published"] or DASH for one in by_setting]
            rows.append([Text(str(of_method["label"].iloc[0])), Text("ours"), *map(Text, ours)])
            empty = not any(one["published"] for one in by_setting)
            printed = [NOT_IN_PAPER, *theirs[1:]] if empty else theirs
            rows.append([Text(""), Text("paper"), *map(Text, printed)])
        blocks.append(RowGroup(str(part["task_label"].iloc[0]), rows))
    remarks = [
        "* differs from the paper's.",
        f"{CALIBRATED}: the least noise with which the target ε holds after these steps. The paper prints neither "
        "steps nor δ.",
    ]
    return Table(title, ["Method", "Source", *SETTINGS], blocks, [], remarks, text_columns=2)
