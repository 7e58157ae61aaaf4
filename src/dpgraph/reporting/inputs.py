"""The inputs of each table, figure and page, for the rules: this module imports no heavy package."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpgraph.config.cell import Task
from dpgraph.config.streams import split_number
from dpgraph.config.suite import COMPUTE
from dpgraph.data.records import FIRST_PROBLEM
from dpgraph.families.registry import spec
from dpgraph.planning.cost import FILE
from dpgraph.planning.plan import Entry, Plan
from dpgraph.planning.resolve import inference_of
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.registry import problem_of
from dpgraph.reporting.views.registry import RESULTS_ALONE, SuiteFiles, inputs_of, views_with

Markers = Mapping[str, Path]  # of the bundle of each cell by its slug, or of each calibration by its key


def artefact_outputs(plan: Plan, names: Iterable[str]) -> list[Path]:
    """Return the files of the plan's tables and figures, in each of their forms."""
    paths, wide = plan.paths, views_with("wide")
    files: list[Path] = []
    for name in names:
        if plan.artefacts[name].kind == "figure":
            files += [paths.figure(name, suffix) for suffix in ("pdf", "svg", "png", "csv", "txt", "html")]
        else:
            suffixes = [*TABLE, *(f"wide.{suffix}" for suffix in TABLE[1:] if plan.artefacts[name].view in wide)]
            files += [paths.table(name, suffix) for suffix in suffixes]
    return files


TABLE = ("csv", "md", "tex", "html")


def about_page(path: Path, captions: str) -> dict[str, Any]:
    """Return what the report says of the HTML page of a table or figure: its category, label and caption."""
    kind, paper = path.parts[-3].removesuffix("s"), path.parent.name
    artefact, what = path.stem.removesuffix(".wide"), f"{kind} as in the paper" if ".wide." in path.name else kind
    return {"category": paper, "labels": {"result": f"{artefact}, {what}"}, "caption": f"{captions}/{kind}.rst"}


def artefact_inputs(plan: Plan, artefact: str, trained: Markers, calibrated: Markers) -> list[Path]:
    """Return the files that the artefact's view reads; a cell's marker stands for its predictions and exposures."""
    cells = [entry.cell for entry in plan.entries_of(artefact) if entry.not_run is None]
    reads = inputs_of(plan.artefacts[artefact].view).reads
    files: list[Path] = []
    if SuiteFiles.RESULTS in reads:
        files.append(plan.paths.results)
    if SuiteFiles.GRAPHS in reads:
        files += _graphs(plan, [artefact])
    if SuiteFiles.CELLS in reads:
        files += [trained[cell.slug] for cell in cells if cell.slug in trained]
    if SuiteFiles.CALIBRATIONS in reads:
        files += _calibrations(plan, [artefact], calibrated)
    return list(dict.fromkeys(files))


def aggregate_inputs(plan: Plan, trained: Markers, calibrated: Markers) -> list[Path]:
    """Return the records of all cells, and the graphs and calibrations from which aggregation makes rows for views.

    A suite that leaves something out for want of compute says how long it would take, by the throughputs.
    """
    kinds = {name: inputs_of(one.view).aggregated for name, one in plan.artefacts.items()}
    graphs = _graphs(plan, [name for name, kind in kinds.items() if SuiteFiles.GRAPHS in kind])
    accounted = [name for name, kind in kinds.items() if SuiteFiles.CALIBRATIONS in kind]
    estimated = any(entry.not_run == COMPUTE for entry in plan.left_out.values())
    speeds = [plan.workflow / FILE] if estimated else []
    return list(dict.fromkeys([*trained.values(), *graphs, *_calibrations(plan, accounted, calibrated), *speeds]))


def artefact_jobs(plan: Plan) -> dict[str, list[str]]:
    """Return the artefacts of each job by its name: those of a paper that are functions of results.parquet share one.

    Any other one has a job of its own: it needs no training, or that of its own cells alone, or files of cells.
    """
    jobs: dict[str, list[str]] = {}
    for name, one in plan.artefacts.items():
        kind = "search" if one.view == "search" else one.kind
        alone = inputs_of(one.view).reads != RESULTS_ALONE.reads
        job = f"{kind}_{name.replace('/', '_')}" if alone else f"artefacts_{name.split('/')[0]}"
        jobs.setdefault(job, []).append(name)
    return jobs


def _graphs(plan: Plan, artefacts: list[str]) -> list[Path]:
    tasks = (task for name in artefacts for _, task in plan.tasks_of(name).values())
    return [plan.paths.graph_record(task) for task in tasks]


def _calibrations(plan: Plan, artefacts: list[str], calibrated: Markers) -> list[Path]:
    cells = (one.cell for name in artefacts for one in plan.entries_of(name) if one.not_run is None)
    return [calibrated[cell.calibration_key] for cell in cells if cell.calibration_key is not None]


def front_page(plan: Plan) -> dict[str, Any]:
    """Return the values that workflow/report/workflow.rst reads as `snakemake.config["about"]`."""
    return {
        "suite": plan.suite.name,
        "title": plan.suite.title,
        "note": " ".join(plan.suite.note.split()),
        "demonstration": plan.suite.demonstration,
        "papers": [f"{experiment.title} ({experiment.citation})" for experiment in plan.experiments.values()],
    }


RELATIONS = "relations"


def compared(plan: Plan) -> list[Entry]:
    """Return the places of methods without privacy that are trained on nodes' classes or on relations, each cell once.

    Of several places of a cell it is one that asks for the most seeds. Not: values of a sweep and trials of a search,
    which are there to be worse, too.
    """
    by_cell: dict[tuple[str, ...], Entry] = {}
    for entry in plan.entries:
        if entry.value is None and entry.not_run is None and _comparable(entry):
            key = (entry.paper, entry.method_id, entry.task_id, entry.cell.slug)
            by_cell[key] = max(by_cell.get(key, entry), entry, key=lambda one: len(one.cell.seeds))
    return list(by_cell.values())


def _comparable(entry: Entry) -> bool:
    cell, known = entry.cell, spec(entry.cell.method)
    if known.private or inference_of(cell) is PredictionInput.NOTHING:
        return False
    problem = problem_of(cell.task).name
    if problem == RELATIONS:
        return not known.look(cell).neutral
    return hasattr(cell, "model") and problem == FIRST_PROBLEM


def splits_by_task(plan: Plan) -> dict[Task, tuple[int, ...]]:
    """Return the tasks that need computed references, with the numbers of the splits of all their results."""
    numbers: dict[Task, set[int]] = {}
    for entry in compared(plan):
        if problem_of(entry.cell.task).name == FIRST_PROBLEM:
            found = {split_number(entry.cell, seed) for seed in entry.cell.seeds}
            numbers.setdefault(entry.cell.task, set()).update(found)
    return {task: tuple(sorted(found)) for task, found in numbers.items()}
