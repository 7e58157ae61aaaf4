"""What each table, figure and list of claims is made from: the rules ask here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import Plan


def artefact_files(plan: Plan, kind: str, *suffixes: str) -> list[Path]:
    """Files of the plan's tables or figures, one per suffix."""
    paths = Paths(plan.config)
    place = paths.table if kind == "table" else paths.figure
    return [place(name, suffix) for name, spec in plan.artefacts.items() if spec.kind == kind for suffix in suffixes]


Markers = Mapping[str, Path]  # of the bundle of each cell by its slug, or of each calibration by its key


def artefact_inputs(plan: Plan, artefact: str, trained: Markers, calibrated: Markers) -> list[Path]:
    """Results for what is computed from cells, graphs for what describes data sets, both for class frequencies.

    Confusions read predictions, embeddings and membership read exposures, all complete when their bundle's marker is
    there; accounting reads calibrations.
    """
    paths = Paths(plan.config)
    graphs = [paths.graph_record(task) for _, task in plan.tasks_of(artefact).values()]
    entries = plan.entries_of(artefact)
    cells = list(dict.fromkeys(trained[entry.cell.slug] for entry in entries if entry.cell.slug in trained))
    match plan.artefacts[artefact].view:
        case "statistics":
            return graphs
        case "class-wise":
            return [paths.results, *graphs]
        case "confusion" | "embedding":
            return [paths.results, *graphs, *cells]
        case "membership":
            return [paths.results, *cells]
        case "search":
            return cells
        case "accounting":
            keys = [entry.cell.calibration_key for entry in entries]
            return list(dict.fromkeys(calibrated[key] for key in keys if key is not None))
        case _:
            return [paths.results]


def aggregate_inputs(plan: Plan, trained: Markers) -> list[Path]:
    """Records of all cells; for hard cases the graphs that say which nodes are tested, and their labels."""
    paths = Paths(plan.config)
    tasks = [task for name, artefact in plan.artefacts.items() if artefact.view == "hard-cases"
             for _, task in plan.tasks_of(name).values()]  # fmt: skip
    return [*dict.fromkeys(trained.values()), *dict.fromkeys(map(paths.graph_record, tasks))]


def claims_inputs(plan: Plan) -> list[Path]:
    """What the claims of the plan are decided from."""
    paths = Paths(plan.config)
    class_wise = [name for name, artefact in plan.artefacts.items() if artefact.view == "class-wise"]
    graphs = [paths.graph_record(task) for name in class_wise for _, task in plan.tasks_of(name).values()]
    return [paths.results, *dict.fromkeys(graphs)]
