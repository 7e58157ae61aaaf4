"""Commands of the stages, the only part of the package that the rules of the workflow call."""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dpgraph.cli.options import ANY_SUITE, Device, PlanOptions, Whole, only_one, read_cell
from dpgraph.core.errors import UserError, invalid

if TYPE_CHECKING:
    from dpgraph.config.cell import Cell
    from dpgraph.config.record import CellRecord
    from dpgraph.planning.plan import Plan

log = logging.getLogger("dpgraph")
PAGES = Literal["claims", "index", "runtimes", "audits", "baselines"]


def fetch(
    dataset: str, /, *, out: Path | None = None, mirrors: str = "", missing: Literal["record", "fail"] = "fail"
) -> None:
    """Fetch a data set's files from a mirror or its URLs.

    Args:
        dataset: Data set of the registry.
        out: Folder (default: data/raw/DATASET).
        mirrors: Folders to try first, separated as in PATH.
        missing: What to do when the files cannot be found.
    """
    from dpgraph.data.fetch import fetch as fetch_data
    from dpgraph.data.fetch import forget_changed, mirrors_from, with_home
    from dpgraph.data.manifest import remember

    named = [part for part in mirrors.split(os.pathsep) if part]
    folder = out or Path("data/raw") / dataset
    forget_changed(dataset, folder)
    manifest = fetch_data(dataset, folder, with_home(dataset, mirrors_from(named, os.environ)), missing=missing)
    remember(folder, named)
    log.info("%s: %s %s", dataset, manifest.status, manifest.reason)


def preprocess(task: str, /, *, raw: Path | None = None, out: Path | None = None, packages: str | None = None) -> None:
    """Read, verify, split and store one graph.

    Args:
        task: DATASET/SETTING.SPLIT[.FEATURES], e.g. cora/disjoint.train-rest.
        raw: Folder of the fetched files (default: data/raw/DATASET).
        out: Folder (default: data/graphs/TASK).
        packages: Optional packages that the workflow found, kept next to the graph (default: those installed).
    """
    from dpgraph.config.cell import Task
    from dpgraph.problems.preprocess import preprocess as preprocess_data

    named = Task.from_folder(task)
    raw, out = raw or Path("data/raw") / named.dataset, out or Path("data/graphs") / named.folder
    preprocess_data(named, raw, out, packages)


def calibrate(
    runs: Path | None = None, /, *, cell: str | None = None, graph: Path | None = None, out: Path | None = None
) -> None:
    """Solve a cell's privacy target for noise or steps, with both guarantees.

    Args:
        runs: Cells that share a job of the workflow, which writes the file: results/SUITE/runs/calibrate/BUNDLE.json.
        cell: One cell instead: a JSON file, or JSON text.
        graph: With --cell: folder of the graph (default: data/graphs/...).
        out: With --cell: JSON file.
    """
    from dpgraph.pipeline.jobs import calibrate_bundle
    from dpgraph.pipeline.run_files import read_runs
    from dpgraph.pipeline.stages import calibrate_cell

    only_one({"RUNS": runs, "--cell": cell})
    if runs is not None:
        return calibrate_bundle(read_runs(runs, "calibrate"))
    read, folder, out = _cell(cell, graph, out)
    calibrate_cell(read, folder, out)


def train(
    runs: Path | None = None,
    /,
    *,
    cell: str | None = None,
    graph: Path | None = None,
    out: Path | None = None,
    calibration: Path | None = None,
    device: Device = "auto",
    workers: Whole = 1,
) -> None:
    """Train a cell, or the cells of a bundle, with all seeds.

    Args:
        runs: Cells that share a job of the workflow, which writes the file: results/SUITE/runs/train/BUNDLE.json.
        cell: One cell instead: a JSON file, or JSON text.
        graph: With --cell: folder of the graph (default: data/graphs/...).
        out: With --cell: folder of the results.
        calibration: With --cell: its calibration (default: calibrate now).
        workers: Seeds at a time, one single-threaded process each.
    """
    from dpgraph.pipeline.jobs import train_bundle
    from dpgraph.pipeline.places import choose_gpu
    from dpgraph.pipeline.run_files import read_runs
    from dpgraph.pipeline.stages import train_cell

    only_one({"RUNS": runs, "--cell": cell})
    if runs is not None:
        bundle = read_runs(runs, "train")
        choose_gpu(bundle.name, device)
        return train_bundle(bundle, device, workers)
    read, folder, out = _cell(cell, graph, out)
    record = train_cell(read, out, graph_folder=folder, calibration_path=calibration, device=device, workers=workers)
    print(outcome_in_words(read, record))


def outcome_in_words(cell: Cell, record: CellRecord) -> str:
    """Return the accuracy on test nodes, or else the first metric, and both epsilons, each in a line."""
    from dpgraph.config.experiment import ACCURACY
    from dpgraph.families.registry import outside_of
    from dpgraph.privacy.guarantee import MODE_NAMES, at_most

    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    found = [[one for one in seed.metrics if one.final and one.class_id < 0] for seed in record.seeds]
    names = [one.metric for one in next((metrics for metrics in found if metrics), [])]
    name = ACCURACY if ACCURACY in names else names[0] if names else None
    values = [one.value for metrics in found for one in metrics if one.metric == name]
    lines = []
    if values:
        spread = f" ({min(values):.4g} to {max(values):.4g} over {len(values)} seeds)" if len(values) > 1 else ""
        lines.append(f"{name}: {sum(values) / len(values):.4g}{spread}")
    statement = record.statement or {}
    proved = "claimed by its author" if outside_of(cell.method) else MODE_NAMES["rigorous"]
    for mode, called in (("published", "by the paper's formula"), ("rigorous", proved)):
        one = statement.get(mode, {})
        epsilon, where = one.get("epsilon"), f"{one.get('relation')}, {one.get('scope')}"
        if epsilon is None:
            lines.append(f"epsilon, {called}: none: {one.get('reason')}")
        elif epsilon in (math.inf, "Infinity"):
            lines.append(f"epsilon, {called}: infinite: no privacy")
        else:
            told = f"{at_most(epsilon, digits=4)} ({where}) at delta {at_most(one['delta'], digits=3)}"
            lines.append(f"epsilon, {called}: {told}")
    return "\n".join(lines)


def _cell(cell: str | None, graph: Path | None, out: Path | None) -> tuple[Cell, Path, Path]:
    """Return the cell, the folder of its graph and where to write."""
    if out is None:
        raise UserError("--cell: expected --out with it")
    read = read_cell(cell or "")
    task = read.task
    folder = graph or Path("data/graphs") / task.folder
    if not (folder / "graph.json").is_file():
        raise UserError(
            f"{folder}: no graph there; make it with `dpgraph run {folder}/graph.json`, or with "
            f"`dpgraph fetch {task.dataset}` and `dpgraph preprocess {task.folder}`"
        )
    return read, folder, out


def aggregate(*, out: Path | None = None, suite: PlanOptions = ANY_SUITE) -> None:
    """Collect all records of a suite in one Parquet table.

    Args:
        out: Parquet file (default: the suite's results.parquet).
    """
    from dpgraph.reporting.aggregate import aggregate as aggregate_records

    plan = suite.plan()
    rows = aggregate_records(plan, out or plan.paths.results)
    log.info("%d rows of %d cells", rows, len(plan.cells))


def artefacts(*names: str, suite: PlanOptions = ANY_SUITE) -> None:
    """Make tables and figures.

    Args:
        names: E.g. daigavane/table1.
    """
    from dpgraph.reporting.render import write_artefacts

    plan = suite.plan()
    known = f"one of {', '.join(plan.artefacts)} (suite {plan.suite.name})"
    if not names:
        raise UserError(f"artefacts: a name is missing: expected at least {known}")
    unknown = [name for name in names if name not in plan.artefacts]
    if unknown:
        raise invalid("artefact", ", ".join(unknown), known)
    write_artefacts(plan, names)


def page(which: PAGES, /, *, check: bool = False, suite: PlanOptions = ANY_SUITE) -> int:
    """Make one page of a suite's results, with its table.

    `claims` gives a verdict on every claim. `index` is the first page and links to all others. `runtimes` lists time,
    memory and outcome of every cell. `audits` shows the attacks on the code. `baselines` compares results without
    privacy with the literature and with references.

    Args:
        which: The page.
        check: With baselines: status 1, with a line for each, if a result is more than 1.5 points lower than a
            reference without a reason.
    """
    if check and which != "baselines":
        raise UserError(f"--check: expected the page baselines with it, not {which}")
    plan = suite.plan()
    complaints = _write_page(which, plan, suite.workflow)
    if check and complaints:
        print("\n".join(complaints))
        return 1
    return 0


def _write_page(which: PAGES, plan: Plan, workflow: Path) -> list[str]:
    """Write a page and return its findings."""
    from dpgraph.reporting.results import read_results

    paths = plan.paths
    if which == "audits":
        from dpgraph.reporting.figures import read_audits, write_audit_figure, write_audit_page

        audits = read_audits(paths.suite / "audits.parquet")
        write_audit_figure(audits, paths.figure("audits", "png").with_suffix(""))
        write_audit_page(plan, audits, paths.suite / "audits.html")
        return []
    results = read_results(paths.results)
    if which == "claims":
        from dpgraph.reporting.claims.table import write_claims

        write_claims(plan, results, paths.claims, paths.claims.with_suffix(".html"))
    elif which == "index":
        from dpgraph.reporting.claims.table import read_claims
        from dpgraph.reporting.leaderboard.page import write_index

        write_index(plan, results, read_claims(paths.claims), paths.index)
    elif which == "runtimes":
        from dpgraph.reporting.runtimes import write_runtimes

        write_runtimes(plan, results, paths.suite / "runtimes.html")
    else:
        from dpgraph.config.literature import read_baselines
        from dpgraph.reporting.baselines import complaints, write_baselines

        compared = write_baselines(plan, read_baselines(workflow), results, paths.baselines)
        log.info("%s: %d comparisons", paths.baselines, len(compared))
        return complaints(compared)
    return []


def references(task: str, /, *, suite: PlanOptions = ANY_SUITE) -> None:
    """Fit scikit-learn's logistic regressions on a task's splits, for the page baselines.

    Args:
        task: DATASET/SETTING.SPLIT[.FEATURES] of the suite.
    """
    from dpgraph.config.cell import Task
    from dpgraph.reporting.inputs import splits_by_task
    from dpgraph.reporting.references import write_references

    plan, named = suite.plan(), Task.from_folder(task)
    splits, paths = splits_by_task(plan), plan.paths
    if named not in splits:
        raise invalid("task", task, f"one of {', '.join(one.folder for one in splits)}")
    write_references(named, paths.graph(named), splits[named], paths.reference(named))
