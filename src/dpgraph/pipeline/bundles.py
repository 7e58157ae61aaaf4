"""Bundles: cells of one task that share a job, so that thousands of short cells are not thousands of jobs.

Starting a job costs seconds (an interpreter, torch, on a cluster two more Snakemakes) and a place in the queue. What a
job requests is estimated from the registry's sizes and the cell's hyper-parameters, since no data is there yet when the
jobs are planned.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpgraph.config.cell import Cell, Task
from dpgraph.config.config import Config
from dpgraph.config.frozen import digest
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.core.files import cause, read_json, write_text
from dpgraph.pipeline.run_files import RunFile, Stage, calibrated, content, name_of, trained
from dpgraph.planning.cost import hours_of, known_of, memory_mb, train_seconds
from dpgraph.planning.plan import Plan
from dpgraph.planning.run import Run

SECONDS_PER_CALIBRATION = 4.0
SECONDS_PER_JOB = 8.0  # an interpreter and torch
SAFETY = 4  # time limit of a job over its estimate: measured cells are within a factor of three, slower cores exist


@dataclass(frozen=True)
class Bundle:
    """Runs that share a job, by the slugs of cells or the keys of calibrations.

    `seconds` is the estimate for all of them on one core.
    """

    name: str
    task: Task
    runs: Mapping[str, Run]
    seconds: float

    def minutes(self, attempt: int) -> int:
        """Return the time limit; each attempt of a job gets more."""
        return attempt * math.ceil(10 + SAFETY * self.seconds / 60)

    def memory_mb(self, attempt: int) -> int:
        """Return the memory that the job requests."""
        return attempt * memory_mb(self.task)


def training_bundles(plan: Plan) -> dict[str, Bundle]:
    """Return every cell in one bundle, by the bundle's name. A search shares none with other cells."""
    searched = {entry.cell.slug for entry in plan.entries if plan.artefacts[entry.artefact].view == "search"}
    parts = ([one for one in plan.runs.items() if one[0] in searched],
             [one for one in plan.runs.items() if one[0] not in searched])  # fmt: skip
    found = (_bundled([(*one, train_seconds(one[1])) for one in part], plan.minutes_per_job, trained) for part in parts)
    return {bundle.name: bundle for bundles in found for bundle in bundles}


def calibration_bundles(plan: Plan) -> dict[str, Bundle]:
    """Return every calibration in one bundle, by the bundle's name."""
    items = [(key, plan.run_of(cell), SECONDS_PER_CALIBRATION) for key, cell in plan.calibrations.items()]
    return {bundle.name: bundle for bundle in _bundled(items, plan.minutes_per_job, calibrated)}


def seconds_to_run(plan: Plan, training: Iterable[Bundle]) -> dict[str, float]:
    """Return the estimated seconds of the jobs of all bundles without a marker."""
    hours = hours_of(plan.runs, known_of(plan))
    return {
        bundle.name: SECONDS_PER_JOB + 3600 * sum(hours[name].mid for name in bundle.runs)
        for bundle in training
        if not plan.paths.trained(bundle.name).exists()
    }


def _bundled(
    items: Iterable[tuple[str, Run, float]], minutes: float, content: Callable[[str, Cell], str]
) -> list[Bundle]:
    """Bundle members by a hash of their name, so that one more member changes one bundle."""
    by_task: dict[Task, list[tuple[str, Run, float]]] = {}
    for item in items:
        by_task.setdefault(item[1].cell.task, []).append(item)
    bundles, limit = [], 60 * minutes
    for task, members in by_task.items():
        short = sum(seconds for *_, seconds in members if seconds < limit)
        shares = 1 << max(math.ceil(math.log2(max(short, 1e-9) / limit)), 0)
        groups: dict[str, list[tuple[str, Run, float]]] = {}
        for name, run, seconds in members:
            place = name if seconds >= limit else str(int(digest(name, 8), 16) % shares)
            groups.setdefault(place, []).append((name, run, seconds))
        for group in groups.values():
            runs = {name: run for name, run, _ in sorted(group, key=lambda item: item[0])}
            name = name_of({name: run.cell for name, run in runs.items()}, content)
            bundles.append(Bundle(name, task, runs, sum(seconds for *_, seconds in group)))
    return bundles


def forget_unfinished(plan: Plan, training: Iterable[Bundle], calibrations: Iterable[Bundle]) -> None:
    """Remove the marker of every bundle of which a member is gone or no longer what it was when the bundle ended.

    Snakemake sees markers only; this is how it notices that a cell's record was deleted or damaged. Only members
    younger than the marker are read: a touched file is no other file. Raises UserError for a marker that may not be
    removed.
    """
    paths = plan.paths
    for bundle in training:
        marker = paths.trained(bundle.name)
        if not _stands(marker, ((name, paths.result(run.cell)) for name, run in bundle.runs.items())):
            _remove(marker)
    for bundle in calibrations:
        marker = paths.calibrated(bundle.name)
        if not _stands(marker, ((key, paths.privacy / f"{key}.json") for key in bundle.runs)):
            _remove(marker)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{cause(error)} (its contents are unknown; delete it)") from None


def _stands(marker: Path, members: Iterable[tuple[str, Path]]) -> bool:
    try:
        written = marker.stat().st_mtime_ns
        younger = {name: path for name, path in members if path.stat().st_mtime_ns > written}
        noted = read_json(marker) if younger else {}
        return all(noted[name] == content(path) for name, path in younger.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


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
