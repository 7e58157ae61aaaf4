"""Tables of data sets: our graph and, below it, the paper's row."""

import math
from collections.abc import Mapping

import pandas as pd

from dpgraph.config import published
from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import NOT_IN_PAPER, Footnotes, MadeTable, RowGroup, Table, Text, failure
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.results import graph_facts
from dpgraph.reporting.splits import NOT_KEPT


def statistics_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row per task: our graph's statistics next to the paper's row of published/datasets.csv, if any.

    A task without facts of its graph lacks its data, or its graph is in none of these rows. Mean degree is directed
    entries per node; ratios are shares of all nodes in train, validation and test.
    """
    paper, name = artefact_id.split("/")
    experiment, artefact = plan.experiments[paper], plan.artefacts[artefact_id]
    rows = []
    for task_id, (suite_task, task) in plan.tasks_of(artefact_id).items():
        values = graph_facts(results, task)
        ok = "nodes" in values
        if "tuples" in values:  # of a relation, each once
            values |= {"entries": 2 * values["tuples"], "mean_degree": 2 * values["tuples"] / values["nodes"]}
        printed_as = suite_task.published_statistics or suite_task.dataset_in_paper
        place = {"paper": experiment.published, "table": artefact.tables(name)[0], "dataset": printed_as or "none"}
        printed = next(iter(published.match("datasets", **place)), {})
        shares = values.get("split_fractions")
        rows.append(
            {
                "paper": paper,
                "artefact": name,
                "task": task_id,
                "task_label": suite_task.label,
                "dataset": task.dataset,
                "setting": task.setting,
                **{name: values.get(name) for name in ("nodes", "entries", "mean_degree", "features", "classes")},
                **{f"{split}_share": (shares or {}).get(split) for split in SPLITS},
                **{f"{split}_nodes": (values.get("split_sizes") or {}).get(split) for split in SPLITS},
                "homophily": values.get("homophily"),
                "published_dataset": printed_as or "",
                **{f"published_{ours}": printed.get(theirs, "") for ours, theirs in PRINTED.items()},
                "counted": counted_texts(values.get("counted")),
                "status": "ok" if ok else "not run",
                "reason": "" if ok else values.get("reason") or NOT_KEPT,
            }
        )
    return pd.DataFrame(rows)


def counted_texts(counted: Mapping[str, Mapping[str, float]] | None) -> str:
    """Return the counts of the reader of graphs of texts, graph by graph; empty for other data."""
    return "; ".join(
        f"{name}: of {formats.count(of['listed_relations'])} listed relations {formats.count(of['unknown_id'])} name "
        f"an unknown id, {formats.count(of['self_relation'])} join an entity to itself and "
        f"{formats.count(of['duplicate'])} repeat another, which leaves {formats.count(of['relations'])}; of "
        f"{formats.count(of['entities'])} entities {formats.count(of['empty_texts'])} have no text and "
        f"{formats.count(of['without_relation'])} no relation"
        for name, of in (counted or {}).items()
    )


SPLITS = ("train", "val", "test")
# our names of the columns of published/datasets.csv
PRINTED = {
    "nodes": "n_entities", "edges": "n_edges", "mean_degree": "avg_degree", "features": "n_features",
    "classes": "n_classes", "split_ratio": "split_ratio", **{f"{split}_nodes": f"n_{split}" for split in SPLITS},
}  # fmt: skip
STATISTICS_COLUMNS = [
    "Data set", "Source", "Nodes", "Edges", "Mean degree", "Features", "Classes", "Train / validation / test",
]  # fmt: skip


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of data sets: our graph and, below it, the paper's row."""
    table = statistics_table(plan, artefact_id, results)
    notes = Footnotes()
    rows: list[list[Text]] = []
    counted = bool((table["published_train_nodes"] != "").any())  # the paper prints sizes, not shares
    for row in table.to_dict("records"):
        if row["status"] == "ok":
            edges, features, classes = map(_counted, (row["entries"] / 2, row["features"], row["classes"]))
            degree = DASH if math.isnan(row["mean_degree"]) else f"{row['mean_degree']:.1f}"
            ours = [formats.count(row["nodes"]), edges, degree, features, classes, _split(row, counted)]
            marks = (notes.number(row["counted"]),) if row["counted"] else ()
            rows.append([Text(row["task_label"], marks), Text("ours"), *map(Text, ours)])
        else:
            gap = [Text(DASH)] * (len(STATISTICS_COLUMNS) - 3)
            status = Text("not kept") if row["reason"] == NOT_KEPT else failure(row, notes)
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
    blocks, title = [RowGroup("", rows)], heading(plan, artefact_id)
    return MadeTable(table, Table(title, STATISTICS_COLUMNS, blocks, notes.texts, remarks, text_columns=2))


def _split(row: dict, counted: bool) -> str:
    if counted:
        return " / ".join(_counted(row[f"{name}_nodes"]) for name in SPLITS)
    shares = [row[f"{name}_share"] for name in SPLITS]
    shown = " / ".join(f"{share:.2f}" for share in shares if share is not None and not math.isnan(share))
    return shown or " / ".join(_counted(row[f"{name}_nodes"]) for name in SPLITS)


def _counted(value: float | str | None) -> str:
    return DASH if value is None or value == "" or math.isnan(float(value)) else formats.count(float(value))
