"""Tables of data sets in long form: our graphs' statistics next to the paper's."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dpgraph.experiments import published
from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats
from dpgraph.reporting.results import graph_facts


def statistics_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row per task: our graph's statistics next to the paper's row of published/datasets.csv, if any.

    A task without facts of its graph was not run (no data). Mean degree is directed entries per node; ratios are shares
    of all nodes in train, validation and test.
    """
    paper, name = artefact_id.split("/")
    experiment, artefact = plan.experiments[paper], plan.artefacts[artefact_id]
    rows = []
    for task_id, (suite_task, task) in plan.tasks_of(artefact_id).items():
        values = graph_facts(results, task)
        ok = "nodes" in values
        if "tuples" in values:  # of a relation, each once
            values |= {"entries": 2 * values["tuples"], "mean_degree": 2 * values["tuples"] / values["nodes"]}
        printed: dict[str, str] = {}
        printed_as = suite_task.published_statistics or suite_task.dataset_in_paper
        if printed_as is not None:
            place = {"paper": experiment.published, "table": artefact.tables(name)[0]}
            matches = published.match("datasets", dataset=printed_as, **place)
            printed = matches[0] if matches else {}
        shares = values.get("split_fractions")
        rows.append(
            {
                "paper": paper,
                "artefact": name,
                "task": task_id,
                "task_label": suite_task.label,
                "dataset": task.dataset,
                "setting": task.setting,
                "nodes": values.get("nodes"),
                "entries": values.get("entries"),
                "mean_degree": values.get("mean_degree"),
                "features": values.get("features"),
                "classes": values.get("classes"),
                **{f"{split}_share": (shares or {}).get(split) for split in ("train", "val", "test")},
                **{
                    f"{split}_nodes": (values.get("split_sizes") or {}).get(split) for split in ("train", "val", "test")
                },
                "homophily": values.get("homophily"),
                "published_dataset": printed_as or "",
                "published_nodes": printed.get("n_entities", ""),
                "published_edges": printed.get("n_edges", ""),
                "published_mean_degree": printed.get("avg_degree", ""),
                "published_features": printed.get("n_features", ""),
                "published_classes": printed.get("n_classes", ""),
                "published_split_ratio": printed.get("split_ratio", ""),
                **{f"published_{split}_nodes": printed.get(f"n_{split}", "") for split in ("train", "val", "test")},
                "counted": counted_texts(values.get("counted")),
                "status": "ok" if ok else "not run",
                "reason": "" if ok else values.get("reason") or "data not available",
            }
        )
    return pd.DataFrame(rows)


def counted_texts(counted: Mapping[str, Mapping[str, float]] | None) -> str:
    """What the reader of graphs of texts counted, graph by graph; empty for other data."""
    return "; ".join(
        f"{name}: of {formats.count(of['listed_relations'])} listed relations {formats.count(of['unknown_id'])} name "
        f"an unknown id, {formats.count(of['self_relation'])} join an entity to itself and "
        f"{formats.count(of['duplicate'])} repeat another, which leaves {formats.count(of['relations'])}; of "
        f"{formats.count(of['entities'])} entities {formats.count(of['empty_texts'])} have no text and "
        f"{formats.count(of['without_relation'])} no relation"
        for name, of in (counted or {}).items()
    )
