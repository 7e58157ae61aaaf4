"""Model inversion: accuracy, distances and epsilons of attacked networks (Zhang 2021, chapter 4)."""

import math
from typing import Any

import pandas as pd

from dpgraph.config.experiment import ACCURACY
from dpgraph.planning.plan import Entry, Plan
from dpgraph.problems.images.exposure import BLANK, BY_CLASS, L2, MEMBERSHIP, RECOGNISED, SSIM
from dpgraph.reporting import display, protection, splits
from dpgraph.reporting.artefacts import described, heading, of_entry
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.formats import bracket
from dpgraph.reporting.paper_values import paper_class_values
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import EntryResult, Results, over_seeds

# by column: the metric, and the head in the table
MEASURES = {
    "accuracy": (ACCURACY, "Accuracy (%)"),
    "l2": (L2, "L2"),
    "ssim": (SSIM, "1 − SSIM"),
    "recognised": (RECOGNISED, "Recognised (%)"),
    "blank": (BLANK, "Black"),
    "membership": (MEMBERSHIP, "Membership (%)"),
}
MEAN = -1  # class of a row of means


def inversion_rows(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row per entry with its means (`class_id` -1), and one for each class of the artefact's metric.

    `distance` is the artefact's metric, with mean, std and 95 % interval over seeds; `distance_published` is the
    paper's number for the class. Rows of means have accuracy and shares in percent, both distances and that of a black
    image; `attack` is original, enhanced or strong.
    """
    known, metric = Results.of(results), plan.artefacts[artefact_id].metric
    rows: list[dict[str, Any]] = []
    for entry in plan.entries_of(artefact_id):
        outcome = known.outcome(entry, metric)
        told = entry.cell.inversion  # type: ignore[attr-defined]
        head = described(entry, outcome) | {"value": of_entry(entry, "value")["value"], "attack": told.attack}
        rows.append(head | {"class_id": MEAN} | _means(entry, outcome, known) | {"distance_published": math.nan})
        printed = paper_class_values(plan.experiments[entry.paper], entry, metric)
        by_class = known.by_class(entry, BY_CLASS + metric)
        for number in sorted({*map(int, by_class), *printed}):
            values = by_class[number].dropna() if number in by_class else pd.Series(dtype=float)
            own = EntryResult("ok", "", values, metric=metric)
            rows.append(
                head
                | {"class_id": number}
                | _distance(own)
                | {"distance_published": float(printed.get(number, math.nan))}
            )
    return pd.DataFrame(rows)


def _means(entry: Entry, outcome: EntryResult, known: Results) -> dict[str, float]:
    columns = _distance(outcome)
    for name, (metric, _) in MEASURES.items():
        columns |= over_seeds(name, known.outcome(entry, metric).shown)
    return columns


def _distance(outcome: EntryResult) -> dict[str, float]:
    return {"distance" if name == "mean" else name: value for name, value in outcome.summary().columns.items()}


CLASSES_WITH_COLUMN = 10  # with a column each
MEANING = (
    "Distance: from the reconstruction of one attack to the nearest training image of the class. It does not bound ε: "
    "another attack may come nearer, and a distance does not show whether one image or class was in the data. Nor does "
    "ε bound a distance: an image of a class outside the training data may be as near. Compare distances only between "
    "rows of similar accuracy.",
    "Recognised: reconstructions whose nearest training image by angle (at any brightness), of all classes, is of "
    "their own class. Black: the mean least L2 of a black image, which is this near without any data: an L2 above it "
    "shows nothing by itself.",
    "Membership: area under the curve of the attack that takes images with small losses for members; 50 % is chance. "
    "It is about single images, as record-DP is.",
)


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of attacked networks, a block per task; a sweep has a column of its values."""
    table, artefact = inversion_rows(plan, artefact_id, results), plan.artefacts[artefact_id]
    parameter, distance = artefact.sweep.label if artefact.sweep else "", quantity(artefact.metric).label
    notes = Footnotes()
    known = sorted(set(table["class_id"]) - {MEAN})
    classes = [] if parameter else known[:CLASSES_WITH_COLUMN]  # of a sweep: in the CSV file
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
    heads = [*(head for _, head in MEASURES.values()), *(f"Class {number}" for number in classes)]
    columns = ["Method", *[parameter] * bool(parameter), "Target ε", *display.EPSILON_HEADS, "Seeds", *heads]
    remarks = [
        f"Mean ± sample standard deviation over the seeds; columns of classes: {distance}, means; in brackets behind "
        "the paper’s: ours minus it. A lower distance is a better attack.",
        *MEANING,
        display.EPSILON_REMARK,
        *protection.remarks(table),
    ]
    if len(known) > len(classes):
        shown = f"the first {len(classes)} have columns" if classes else "none has a column"
        remarks.insert(1, f"Of {len(known)} classes {shown}; the kept rows have all.")
    brief = [f"Columns of classes: {distance}.", *MEANING, *protection.brief(table)]
    return MadeTable(table, Table(heading(plan, artefact_id), columns, groups, notes.texts, remarks, brief=brief))


def _ours(row: dict[str, Any], of_class: pd.DataFrame, classes: list[int], swept: bool, notes: Footnotes) -> list[Text]:
    head = display.head_cells(row, notes, *[Text(row["value"] or DASH)] * swept)
    head.append(display.seeds_cell(row, notes))
    if row["status"] != "ok":
        return [*head, display.failure(row, notes), *[Text(DASH)] * (len(MEASURES) - 1 + len(classes))]
    return [
        *head,
        *(display.measure_cell(row, name, 3 if name == "ssim" else 2) for name in MEASURES),
        *(_distance_cell(of_class, number, "distance") for number in classes),
    ]


def _printed(row: dict[str, Any], of_class: pd.DataFrame, classes: list[int], swept: bool) -> list[Text]:
    before = 1 + swept + 1 + len(display.EPSILON_HEADS) + 1 + len(MEASURES)
    gaps = (of_class["distance"] - of_class["distance_published"]).to_dict()
    texts = [_distance_cell(of_class, number, "distance_published").value for number in classes]
    numbers = [Text(text + bracket(gaps.get(number, math.nan))) for text, number in zip(texts, classes, strict=True)]
    return [Text(f"paper: {row['label']}"), *[Text(DASH)] * (before - 1), *numbers]


def _distance_cell(of_class: pd.DataFrame, number: int, column: str) -> Text:
    value = float(of_class[column].get(number, math.nan))
    return Text(DASH if math.isnan(value) else f"{value:.2f}" if value >= 1 else f"{value:.3f}")


CLASSES_ON_AXIS = 20  # on an axis
ORDINALS = ("largest", "second", "third", "fourth", "fifth", "sixth")


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw, for each task, a panel for the largest target epsilon of each method, one for the second, and so on.

    Methods without a target are in all panels. Bands are 95 % intervals.
    """
    points = inversion_rows(plan, artefact_id, results).rename(columns={"distance": "mean"}).assign(source="ours")
    artefact = plan.artefacts[artefact_id]
    looks, shown = looks_of_methods(plan.entries_of(artefact_id)), quantity(artefact.metric)
    target = points.groupby(["task", "method"])["epsilon_target"]
    points = points.assign(place=target.rank(method="dense", ascending=False))
    tasks = plan.tasks_of(artefact_id)
    places = {task: points.loc[points["task"] == task, "place"].dropna().unique() for task in tasks}
    panels = [(task, place) for task, known in places.items() for place in sorted(known) or [1.0]]
    handles = marks.method_handles(points, looks, line=False)
    names = [ORDINALS[min(int(place), len(ORDINALS)) - 1] for _, place in panels]
    titles = [f"{tasks[task][0].label}, {name} ε of each method" for (task, _), name in zip(panels, names)]
    figure, grid, width = canvas.panelled(titles, handles, plan.suite.demonstration, "class", shown.label)
    for axes, (task, place) in zip(grid, panels, strict=True):
        rows = points[(points["task"] == task) & (points["class_id"] != MEAN) & points["mean"].notna()]
        rows = rows[rows["place"].isna() | (rows["place"] == place)]
        classes = min(rows["class_id"].nunique(), CLASSES_ON_AXIS)
        methods = list(dict.fromkeys(rows["method"]))
        for method, part in rows.groupby("method", sort=False):
            part = part[part["class_id"] < CLASSES_ON_AXIS]
            side = marks.Slot(methods.index(method), len(methods), width / (classes + 2))
            x = part["class_id"].to_numpy(float)
            marks.curve(axes, x, part, looks[str(method)], shown, side, ordered=False)
    means = points[points["class_id"] == MEAN]
    about = words.described(means, artefact.caption, MEANING[0], *splits.fixed(plan, artefact_id))
    return Drawn(figure, points.drop(columns="place"), about)
