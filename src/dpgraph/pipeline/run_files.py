"""Files of runs: what the workflow hands to the job of a bundle.

The workflow plans a suite once, and before its first job writes the cells of each bundle to
results/<suite>/runs/<stage>/<bundle>.json. The job reads them and plans nothing. A bundle's name is a hash of its
cells, so that a file that was edited, or written by a version with other defaults, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from dpgraph.config.cell import Cell
from dpgraph.config.config import Config, Folder, parse
from dpgraph.config.documents import json_value, text_of
from dpgraph.config.frozen import Finite
from dpgraph.config.paths import Paths
from dpgraph.core import outside
from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import write_text
from dpgraph.families.registry import specs
from dpgraph.pipeline.markers import calibrated, name_of, trained
from dpgraph.planning.resolve import resolve
from dpgraph.planning.run import Run, RunPaths

if TYPE_CHECKING:
    from dpgraph.pipeline.bundles import Bundle
    from dpgraph.planning.plan import Plan

Stage = Literal["calibrate", "train"]
AGAIN = "`dpgraph run` writes it before its first job"


class RunFile(Finite):
    """The cells of one bundle, and what of the config its job reads."""

    stage: Stage
    bundle: str
    suite: str
    data: Folder
    results: Folder
    registry: tuple[Folder, ...] = ()
    cells: dict[str, dict[str, Any]] = Field(min_length=1, description="By slug, or by the key of their calibration")
    evaluations: dict[str, tuple[int, ...]] = Field(
        default={}, description="By a calibration's key, the numbers of evaluations of all cells that share it"
    )


@dataclass(frozen=True)
class BundleRuns:
    """The runs of a bundle as its job has them."""

    name: str
    paths: Paths
    runs: Mapping[str, Run]
    evaluations: Mapping[str, tuple[int, ...]]


def write_runs(plan: Plan, training: Iterable[Bundle], calibrations: Iterable[Bundle]) -> None:
    """Write the file of every bundle; one that would be the same is left alone."""
    evaluations: dict[str | None, set[int]] = {}
    for cell in plan.cells.values():
        evaluations.setdefault(cell.calibration_key, set()).add(cell.training.evaluations)
    for bundle in calibrations:
        shared = {key: tuple(sorted(evaluations.get(key, ()))) for key in bundle.runs}
        _write(plan.config, "calibrate", bundle, shared)
    for bundle in training:
        _write(plan.config, "train", bundle, {})


def _write(config: Config, stage: Stage, bundle: Bundle, evaluations: dict[str, tuple[int, ...]]) -> None:
    given = config.model_dump(mode="json", include={"suite", "data", "results", "registry"})
    cells = {name: run.cell.model_dump(mode="json") for name, run in bundle.runs.items()}
    file = RunFile(stage=stage, bundle=bundle.name, cells=cells, evaluations=evaluations, **given)
    text = json.dumps(file.model_dump(mode="json"), indent=1) + "\n"
    path = Paths(config).runs(stage, bundle.name)
    with suppress(OSError):
        if path.read_text(encoding="utf-8") == text:
            return
    write_text(path, text)


def read_runs(path: Path, stage: Stage) -> BundleRuns:
    """Resolve the runs of a bundle from its file.

    Raises UserError for a file that is missing, of another stage, or no longer what its name says.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file: expected the runs of a bundle; {AGAIN}")
    file = parse(RunFile, json_value(text_of(path), str(path)), str(path))
    if file.stage != stage:
        raise invalid(f"{path}: stage", file.stage, f"{stage}, or the command `dpgraph {file.stage}`")
    outside.use(file.registry)
    methods = specs()
    cells = {name: resolve(value, f"{path}: cells.{name}", methods) for name, value in file.cells.items()}
    named = {_own_name(stage, cell): cell for cell in cells.values()}
    content = trained if stage == "train" else calibrated
    if list(named) != list(cells) or name_of(cells, content) != file.bundle:
        raise UserError(
            f"{path}: bundle={file.bundle}: edited, or written by another version of dpgraph: expected a hash of its "
            f"cells; {AGAIN}"
        )
    paths = Paths(parse(Config, file.model_dump(include={"suite", "data", "results", "registry"}), str(path)))
    runs = {name: Run.of(cell, RunPaths.of(paths, cell), methods[cell.method]) for name, cell in cells.items()}
    return BundleRuns(file.bundle, paths, runs, file.evaluations)


def _own_name(stage: Stage, cell: Cell) -> str | None:
    return cell.slug if stage == "train" else cell.calibration_key
