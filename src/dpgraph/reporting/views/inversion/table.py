"""Tables of model inversion: a row per attacked network with means, and the distance of each class."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import display, formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.views.inversion.rows import MEAN, inversion_rows

MOST_CLASSES = 10  # with a column each
MEANS = {
    "accuracy": "Accuracy (%)",
    "l2": "L2",
    "ssim": "1 − SSIM",
    "recognised": "Recognised (%)",
    "blank": "Black",
    "membership": "Membership (%)",
}

MEANING = (
    "A distance is of the reconstruction that one attack found to the nearest training image of the class. It bounds "
    "no ε: another attack may come nearer, and a distance says nothing of whether one image, or one class, was in the "
    "data. An ε bounds every attack on what it protects, and no distance: an image of a class that "
    "the training data do not hold may be as near. A distance in one row is no scale for that in another with other "
    "accuracy."
)
BLANK = (
    "Black image: the mean least L2 of an image without any ink, which knows nothing of the data. A reconstruction "
    "that is farther than that is no nearer to the training images than nothing."
)
RECOGNISED = "Recognised: reconstructions whose nearest training image by L2, of all classes, is of their own class."
MEMBERSHIP = (
    "Membership: area under the curve of the attack that calls images of small loss members, 50 % where losses tell "
    "nothing. It is about single images, as record-DP is, and no better measured by a distance than an ε is."
)


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    frame = inversion_rows(plan, artefact_id, results)
    sweep = plan.artefacts[artefact_id].sweep
    shown = quantity(plan.artefacts[artefact_id].metric)
    return MadeTable(
        frame, inversion_display(heading(plan, artefact_id), frame, sweep.label if sweep else "", shown.label)
    )


def inversion_display(title: str, table: pd.DataFrame, parameter: str, distance: str) -> Table:
    """From `inversion_rows`: a block per task; `parameter` heads the values of a sweep, if there is one."""
    notes = Footnotes()
    known = sorted(set(table["class_id"]) - {MEAN})
    classes = [] if parameter else known[:MOST_CLASSES]  # where many networks stand below each other: in the CSV file
    groups = []
    for _, part in table.groupby("task", sort=False):
        rows: list[list[Text]] = []
        keys = ["method", "value", "epsilon_target"]
        for _, own in part.groupby(keys, sort=False, dropna=False):
            of_class = own.set_index("class_id")
            row = of_class.loc[MEAN].to_dict()
            if own["distance_published"].notna().any():
                rows.append(_printed(row, of_class, classes, bool(parameter)))
            rows.append(_ours(row, of_class, classes, bool(parameter), notes))
        groups.append(RowGroup(display.with_delta(str(part["task_label"].iloc[0]), part), rows))
    columns = ["Method", *[parameter] * bool(parameter), "Target ε", *display.EPSILON_HEADS, "Seeds", *MEANS.values()]
    columns += [f"Class {number}" for number in classes]
    remarks = [
        f"Mean ± sample standard deviation over the seeds; columns of classes: {distance}, means. A lower distance is "
        "a better attack.",
        MEANING,
        f"{RECOGNISED} {BLANK}",
        MEMBERSHIP,
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    if len(known) > len(classes):
        shown = f"the first {len(classes)} have columns" if classes else "none has a column"
        remarks.insert(1, f"Of {len(known)} classes {shown}; the CSV file has all.")
    brief = [f"Columns of classes: {distance}.", MEANING, f"{RECOGNISED} {BLANK}", MEMBERSHIP, *protection.brief(table)]
    return Table(title, columns, groups, notes.texts, remarks, brief=brief)


def _ours(row: dict[str, Any], of_class: pd.DataFrame, classes: list[int], swept: bool, notes: Footnotes) -> list[Text]:
    head = [
        Text(row["label"]),
        *[Text(row["value"] or DASH)] * swept,
        display.target_cell(row),
        *display.epsilon_cells(row, notes),
    ]
    head.append(display.seeds_cell(row, notes))
    if row["status"] != "ok":
        return [*head, display.failure(row, notes), *[Text(DASH)] * (len(MEANS) - 1 + len(classes))]
    return [*head, *(_measure(row, name) for name in MEANS), *(_of(of_class, number, "distance") for number in classes)]


def _printed(row: dict[str, Any], of_class: pd.DataFrame, classes: list[int], swept: bool) -> list[Text]:
    before = 1 + swept + 1 + len(display.EPSILON_HEADS) + 1 + len(MEANS)
    numbers = (_of(of_class, number, "distance_published") for number in classes)
    return [Text(f"paper: {row['label']}"), *[Text(DASH)] * (before - 1), *numbers]


def _of(of_class: pd.DataFrame, number: int, column: str) -> Text:
    value = float(of_class[column].get(number, math.nan))
    return Text(DASH if math.isnan(value) else f"{value:.2f}" if value >= 1 else f"{value:.3f}")


def _measure(row: dict[str, Any], name: str) -> Text:
    mean = row[f"{name}_mean"]
    if math.isnan(mean):
        return Text(DASH)
    return Text(formats.mean_std(mean, row[f"{name}_std"], 3 if name == "ssim" else 2))
