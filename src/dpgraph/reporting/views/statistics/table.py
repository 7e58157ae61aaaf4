"""Tables of data sets as people read them: our graph and, below it, the paper's row."""

from __future__ import annotations

import math

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import NOT_IN_PAPER, Footnotes, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.views.statistics.rows import statistics_table

STATISTICS_COLUMNS = [
    "Data set", "Source", "Nodes", "Edges", "Mean degree", "Features", "Classes", "Train / validation / test",
]  # fmt: skip


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    frame = statistics_table(plan, artefact_id, results)
    return MadeTable(frame, statistics_display(heading(plan, artefact_id), frame))


def statistics_display(title: str, table: pd.DataFrame) -> Table:
    """From `statistics_table`: our graph and, below it, the paper's row."""
    notes = Footnotes()
    rows: list[list[Text]] = []
    counted = bool((table["published_train_nodes"] != "").any())  # the paper prints sizes, not shares
    for row in table.to_dict("records"):
        if row["status"] == "ok":
            ours = [
                formats.count(row["nodes"]),
                _counted(row["entries"] / 2),
                f"{row['mean_degree']:.1f}",
                _counted(row["features"]),
                _counted(row["classes"]),
                _split(row, counted),
            ]
            marks = (notes.number(row["counted"]),) if row["counted"] else ()
            rows.append([Text(row["task_label"], marks), Text("ours"), *map(Text, ours)])
        else:
            gap = [Text(DASH)] * (len(STATISTICS_COLUMNS) - 3)
            status = Text("not run", (notes.number(row["reason"]),))
            rows.append([Text(row["task_label"]), Text("ours"), status, *gap])
        if any(row[name] for name in row if name.startswith("published_") and name != "published_dataset"):
            split = " / ".join(_counted(row[f"published_{name}_nodes"]) for name in SPLITS)
            printed = [
                _counted(row["published_nodes"]),
                _counted(row["published_edges"]),
                *(row[f"published_{name}"] or DASH for name in ("mean_degree", "features", "classes")),
                row["published_split_ratio"].replace("/", " / ") or (split if counted else DASH),
            ]
            rows.append([Text(""), Text("paper"), *map(Text, printed)])
        else:
            rows.append([Text(""), Text("paper"), Text(NOT_IN_PAPER), *[Text(DASH)] * (len(STATISTICS_COLUMNS) - 3)])
    remarks = [
        "Edges: pairs of neighbours in this setting (disjoint and clustered: none between splits); a paper may count "
        "the directed entries of its file. Mean degree: directed entries per node; an undirected edge counts twice. "
        "Train / validation / test: shares of the nodes; of a relation, numbers of its tuples."
    ]
    return Table(title, STATISTICS_COLUMNS, [RowGroup("", rows)], notes.texts, remarks, text_columns=2)


SPLITS = ("train", "val", "test")


def _split(row: dict, counted: bool) -> str:
    if counted:
        return " / ".join(_counted(row[f"{name}_nodes"]) for name in SPLITS)
    shares = [row[f"{name}_share"] for name in SPLITS]
    shown = " / ".join(f"{share:.2f}" for share in shares if share is not None and not math.isnan(share))
    return shown or " / ".join(_counted(row[f"{name}_nodes"]) for name in SPLITS)


def _counted(value: float | str | None) -> str:
    return DASH if value is None or value == "" or math.isnan(float(value)) else formats.count(float(value))
