"""Bundles of runs: their names, the files that hand them to jobs, and the markers that jobs leave.

The workflow plans a suite once, and before its first job writes the cells of each bundle to
results/<suite>/runs/<stage>/<bundle>.json. The job reads them and does not plan. A bundle's name is a hash of its
cells, so that a file that was edited, or written by a version with other defaults, is refused. A marker has a hash of
each member.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from dpgraph.config.cell import Cell
from dpgraph.config.config import Config, Folder, parse
from dpgraph.config.documents import json_value, text_of
from dpgraph.config.frozen import Finite, digest
from dpgraph.config.paths import Paths
from dpgraph.core import outside
from dpgraph.core.errors import UserError, invalid
from dpgraph.families.registry import specs
from dpgraph.planning.resolve import resolve
from dpgraph.planning.run import Run, RunPaths

# of the environment of jobs
AGAIN = "DPGRAPH_AGAIN"  # 1, where training is a forced rerun
ATTEMPT = "DPGRAPH_ATTEMPT"  # number of this attempt, from 1
RETRIES = "DPGRAPH_RETRIES"  # how often Snakemake submits a failed job again


def trained(slug: str, cell: Cell) -> str:
    """Return a member's part of the content of a training bundle."""
    return f"{slug}:{','.join(map(str, cell.seeds))}"


def calibrated(key: str, cell: Cell) -> str:
    """Return a member's part of the content of a bundle of calibrations."""
    return key


def name_of(cells: Mapping[str, Cell], content: Callable[[str, Cell], str]) -> str:
    """Return a bundle's name, a hash of its content: the same cells with the same seeds have one name."""
    mark = digest([content(name, cell) for name, cell in cells.items()], 8)
    first, cell = next(iter(cells.items()))
    count = str(len(cells)) if len(cells) > 1 else first.rsplit(".", 1)[-1]
    return f"{cell.task.dataset}-{cell.task.setting}.{count}-{mark}"


def content(path: Path) -> str:
    """Return the hash of a member that markers hold."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


Stage = Literal["calibrate", "train"]
WRITTEN = "`dpgraph run` writes it before its first job"


class RunFile(Finite):
    """The cells of one bundle, and what of the config its job reads."""

    stage: Stage
    bundle: str
    suite: str
    data: Folder
    results: Folder
    registry: tuple[Folder, ...] = ()
    cells: dict[str, dict[str, Any]] = Field(min_length=1, description="By slug, or by the key of their calibration")
    evaluations: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Numbers of evaluations of all cells that share a calibration, by its key"""


@dataclass(frozen=True)
class BundleRuns:
    """The runs of a bundle as its job has them."""

    name: str
    paths: Paths
    runs: Mapping[str, Run]
    evaluations: Mapping[str, tuple[int, ...]]


def read_runs(path: Path, stage: Stage) -> BundleRuns:
    """Resolve the runs of a bundle from its file.

    Raises UserError for a file that is missing, of another stage, or no longer what its name says.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected the runs of a bundle; {WRITTEN}")
    file = parse(RunFile, json_value(text_of(path), str(path)), str(path))
    if file.stage != stage:
        raise invalid(f"{path}: stage", file.stage, f"{stage}, or the command `dpgraph {file.stage}`")
    outside.use(file.registry)
    methods = specs()
    cells = {name: resolve(value, f"{path}: cells.{name}", methods) for name, value in file.cells.items()}
    named = [cell.slug if stage == "train" else cell.calibration_key for cell in cells.values()]
    content = trained if stage == "train" else calibrated
    if named != list(cells) or name_of(cells, content) != file.bundle:
        raise UserError(
            f"{path}: bundle={file.bundle}: edited, or written by another version of dpgraph: expected a hash of its "
            f"cells; {WRITTEN}"
        )
    paths = Paths(parse(Config, file.model_dump(include={"suite", "data", "results", "registry"}), str(path)))
    runs = {
        name: Run.resolve(cell, RunPaths.in_suite(paths, cell), methods[cell.method]) for name, cell in cells.items()
    }
    return BundleRuns(file.bundle, paths, runs, file.evaluations)
