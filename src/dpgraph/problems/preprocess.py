"""From raw files to the stored data of a task: what is the same for every problem."""

from __future__ import annotations

from pathlib import Path

from dpgraph.config.cell import Task
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.core.files import locked, sweep
from dpgraph.core.loading import load
from dpgraph.data.manifest import read_manifest, verify_files
from dpgraph.data.readers import read
from dpgraph.data.registry import entry
from dpgraph.data.stored import save_unavailable
from dpgraph.problems.registry import problem_of


def preprocess(task: Task, raw_dir: Path, out_dir: Path) -> None:
    """Stores the data of `task` in `out_dir` (data/graphs/<task.folder>), as its problem does it.

    `raw_dir` is the data set's folder, as `fetch` filled it. Where its manifest says unavailable, or a reader finds
    that a model cannot be used, only a header with that reason is stored.
    Raises UserError for a task that the problem does not have, for files that are no longer what was downloaded, for
    damaged ones, and for statistics that differ from the registry's.
    """
    raw_dir, out_dir = Path(raw_dir), Path(out_dir)
    known, problem = entry(task.dataset), problem_of(task)
    problem.check(task)
    manifest = read_manifest(raw_dir)
    if manifest.dataset != task.dataset:
        raise UserError(f"{raw_dir}: files of data set {manifest.dataset}: expected {task.dataset}")
    if manifest.status != "ok":
        save_unavailable(task.dataset, manifest.reason, out_dir)
        return
    verify_files(manifest, raw_dir)
    try:
        raw = read(known, raw_dir)
    except DataUnavailable as error:
        save_unavailable(task.dataset, str(error), out_dir)
        return
    with locked(out_dir):
        sweep(out_dir)
        load(problem.store)(task, known, raw, out_dir)
