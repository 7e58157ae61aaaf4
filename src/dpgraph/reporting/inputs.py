"""What each table, figure and list of claims is made from: the rules use this."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpgraph.experiments.paths import Paths
from dpgraph.experiments.suite import COMPUTE
from dpgraph.planning.cost import FILE
from dpgraph.planning.plan import Plan
from dpgraph.reporting.views.registry import SuiteFiles, inputs_of, views_with

Markers = Mapping[str, Path]  # of the bundle of each cell by its slug, or of each calibration by its key


def artefact_files(plan: Plan, kind: str, *suffixes: str) -> list[Path]:
    """Files of the plan's tables or figures, one per suffix."""
    paths = Paths(plan.config)
    place = paths.table if kind == "table" else paths.figure
    return [place(name, suffix) for name, spec in plan.artefacts.items() if spec.kind == kind for suffix in suffixes]


def wide_files(plan: Plan) -> list[Path]:
    """Files of the plan's tables in their papers' own layout."""
    able = views_with("wide")
    named = [name for name, spec in plan.artefacts.items() if spec.kind == "table" and spec.view in able]
    paths = Paths(plan.config)
    return [paths.table(name, f"wide.{suffix}") for name in named for suffix in ("csv", "md", "tex", "html")]


def artefact_inputs(plan: Plan, artefact: str, trained: Markers, calibrated: Markers) -> list[Path]:
    """Files of what the artefact's view reads; a cell's predictions and exposures are there when its marker is."""
    cells = [entry.cell for entry in plan.entries_of(artefact) if entry.not_run is None]
    reads = inputs_of(plan.artefacts[artefact].view).reads
    files: list[Path] = []
    if SuiteFiles.RESULTS in reads:
        files.append(Paths(plan.config).results)
    if SuiteFiles.GRAPHS in reads:
        files += _graphs(plan, [artefact])
    if SuiteFiles.CELLS in reads:
        files += [trained[cell.slug] for cell in cells if cell.slug in trained]
    if SuiteFiles.CALIBRATIONS in reads:
        files += [calibrated[cell.calibration_key] for cell in cells if cell.calibration_key is not None]
    return list(dict.fromkeys(files))


def aggregate_inputs(plan: Plan, trained: Markers) -> list[Path]:
    """Return the records of all cells, and the graphs of views whose metrics are derived from predictions on them.

    A suite that leaves something out for want of compute says how long it would take, by the throughputs.
    """
    names = [name for name, one in plan.artefacts.items() if inputs_of(one.view).aggregation_reads_graphs]
    estimated = any(entry.not_run == COMPUTE for entry in plan.left_out.values())
    return list(
        dict.fromkeys([*trained.values(), *_graphs(plan, names), *([plan.workflow / FILE] if estimated else [])])
    )


def claims_inputs(plan: Plan) -> list[Path]:
    """What the claims of the plan are decided from."""
    names = [name for name, one in plan.artefacts.items() if inputs_of(one.view).claims_read_graphs]
    return list(dict.fromkeys([Paths(plan.config).results, *_graphs(plan, names)]))


def _graphs(plan: Plan, artefacts: list[str]) -> list[Path]:
    tasks = (task for name in artefacts for _, task in plan.tasks_of(name).values())
    return [Paths(plan.config).graph_record(task) for task in tasks]
