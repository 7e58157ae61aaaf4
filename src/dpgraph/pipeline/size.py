"""The pipeline at the sizes of ogbn-products and ogbn-mag: time and memory of each stage, each killed once if asked to.

Files of that size are generated (`ogb_files`) and go through the workflow's own rules: download from a local mirror,
preprocessing, calibration, training of a few steps, tables. Accuracies say nothing.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpgraph.benchmarks.workflow import measured
from dpgraph.errors import invalid
from dpgraph.experiments.config import Config
from dpgraph.experiments.paths import Paths
from dpgraph.files import atomic_path, write_text
from dpgraph.pipeline.bundles import Bundle, calibration_bundles, training_bundles
from dpgraph.planning.plan import Plan, load_plan
from dpgraph.progress import tracked
from dpgraph.reporting.display import RowGroup, Table, Text
from dpgraph.reporting.formats import DASH, significant
from dpgraph.reporting.rendering import as_markdown

SUITE = "size"
COLUMNS = ("stage", "what", "seconds", "cpu_seconds", "peak_mib", "killed_after")
HEADS = ("Stage", "What", "Seconds", "CPU seconds", "Peak GiB", "Killed after")


def bench(out: Path, work: Path, kill_after: float | None = None, suite: str = SUITE) -> list[dict[str, Any]]:
    """One row for each job of `suite`, as CSV and Markdown; in the folder of the Snakefile, with all files in `work`.

    `seconds`, `cpu_seconds` and `peak_mib` (resident, of the largest process) are those of one run of Snakemake on one
    core, its own plan of jobs included. With `kill_after` a job that is not done after so many seconds is killed
    (SIGKILL, its whole process group) and run again; its row is the second run. Rows that are in `out` are kept, and
    what is in `work` is not made again.
    """
    if kill_after is not None and not kill_after > 0:
        raise invalid("kill_after", kill_after, "> 0 seconds")
    work = work.resolve()
    mirrors = (str(work / "mirror"),)
    plan = load_plan(Config(suite=suite, data=str(work / "data"), results=str(work / "results"), mirrors=mirrors))
    jobs = list(_jobs(plan))
    known: dict[tuple[str, str], dict[str, Any]] = {(row["stage"], row["what"]): row for row in _read(out)}
    for stage, what, command in tracked(jobs, "bench", len(jobs), "job"):
        if (stage, what) not in known:
            known[stage, what] = {"stage": stage, "what": what} | _measured(command, kill_after)
            _write(out, [known[job[:2]] for job in jobs if job[:2] in known])
    return [known[stage, what] for stage, what, _ in jobs]


def _jobs(plan: Plan) -> Iterator[tuple[str, str, list[str]]]:
    """(stage, what, command) in the order in which they need each other."""
    paths = Paths(plan.config)
    tasks = list({cell.task.folder: cell.task for cell in plan.cells.values()}.values())
    datasets = list(dict.fromkeys(task.dataset for task in tasks))
    mirror = plan.config.mirrors[0]
    for dataset in datasets:
        yield "files", dataset, [sys.executable, "-m", "dpgraph", "ogb-files", dataset, "--out", mirror]
    for dataset in datasets:
        yield "download", dataset, _run(plan, paths.manifest(dataset))
    for task in tasks:
        yield "preprocess", task.folder, _run(plan, paths.graph_record(task))
    for name, bundle in calibration_bundles(plan).items():
        yield "calibrate", bundle.task.folder, _run(plan, paths.calibrated(name))
    for name, bundle in training_bundles(plan).items():
        yield "train", _members(plan, bundle), _run(plan, paths.trained(name))
    yield "aggregate", "tables", _run(plan, "tables")


def _members(plan: Plan, bundle: Bundle) -> str:
    methods = [next(entry.method_id for entry in plan.entries if entry.cell.slug == slug) for slug in bundle.members]
    return f"{bundle.task.folder}: {', '.join(dict.fromkeys(methods))}"


def _run(plan: Plan, target: Path | str) -> list[str]:
    """`--nolock`: the lock of a killed Snakemake stays behind."""
    snakemake = [sys.executable, "-m", "snakemake", "--scheduler", "greedy", "--cores", "1", "--nolock"]
    return [*snakemake, "--rerun-incomplete", "--config", *plan.config.items(), "--", str(target)]


def _measured(command: Sequence[str], kill_after: float | None) -> dict[str, Any]:
    try:
        return {**measured(command, kill_after), "killed_after": ""}
    except subprocess.TimeoutExpired:
        return {**measured(command), "killed_after": kill_after}


def _read(out: Path) -> list[dict[str, Any]]:
    if not out.is_file():
        return []
    with out.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _write(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    cells = [[Text(text) for text in _shown(row)] for row in rows]
    table = Table("The pipeline at full size", list(HEADS), [RowGroup("", cells)], [], [], text_columns=2)
    write_text(out.with_suffix(".md"), as_markdown(table))


def _shown(row: Mapping[str, Any]) -> list[str]:
    numbers = [
        significant(float(number)) for number in (row["seconds"], row["cpu_seconds"], float(row["peak_mib"]) / 1024)
    ]
    return [row["stage"], row["what"], *numbers, f"{row['killed_after']} s" if row["killed_after"] else DASH]
