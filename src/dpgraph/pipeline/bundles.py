"""Bundles: cells of one task that share a job, so that thousands of short cells are not thousands of jobs.

Starting a job costs seconds (an interpreter, torch, on a cluster two more Snakemakes) and a place in the queue. What a
job requests is estimated from the registry's sizes and the cell's hyper-parameters, since no data is there yet when the
jobs are planned. Jobs take about an hour at most, and so little that there are two for each place to run one.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpgraph.config.cell import Cell, Task
from dpgraph.config.config import Config
from dpgraph.config.frozen import digest
from dpgraph.config.paths import Paths
from dpgraph.config.streams import check_noise
from dpgraph.core.errors import UserError
from dpgraph.core.files import cause, read_json, write_text
from dpgraph.pipeline.run_files import RunFile, Stage, calibrated, content, name_of, trained
from dpgraph.planning.cost import hours_of, known_of, memory_mb
from dpgraph.planning.plan import Plan
from dpgraph.planning.run import Run
from dpgraph.planning.throughputs import planned_seconds

LENGTHS = tuple(2.0**power for power in range(6, -3, -1))  # of a job, in estimated minutes
HASH_BITS = 64
# where the config does not say how many jobs run side by side
PLACES_IF_UNKNOWN, LENGTHS_IF_UNKNOWN = 16, LENGTHS[:6]
SECONDS_PER_CALIBRATION = 4.0
SECONDS_PER_JOB = 8.0  # an interpreter and torch
SAFETY = 4  # time limit of a job over its estimate: measured cells are within a factor of three, slower cores exist


@dataclass(frozen=True)
class Bundle:
    """Runs that share a job, by the slugs of cells or the keys of calibrations.

    `seconds` is the estimate for all of them on the config's device.
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


Member = tuple[str, Run, float]  # a run with its name and estimated seconds


def training_bundles(plan: Plan) -> dict[str, Bundle]:
    """Return every cell in one bundle, by the bundle's name. A search shares none with other cells."""
    searched = {entry.cell.slug for entry in plan.entries if plan.artefacts[entry.artefact].view == "search"}
    seconds = planned_seconds(plan)
    parts: tuple[list[Member], ...] = [], []
    for slug, run in plan.runs.items():
        parts[slug in searched].append((slug, run, seconds[slug]))
    return _bundles(parts, plan.config, trained)


def calibration_bundles(plan: Plan) -> dict[str, Bundle]:
    """Return every calibration in one bundle, by the bundle's name."""
    members = [(key, plan.run_of(cell), SECONDS_PER_CALIBRATION) for key, cell in plan.calibrations.items()]
    return _bundles([members], plan.config, calibrated)


def seconds_to_run(plan: Plan, training: Iterable[Bundle]) -> dict[str, float]:
    """Return the estimated seconds of the jobs of all bundles without a marker."""
    hours = hours_of(plan.runs, known_of(plan))
    return {
        bundle.name: SECONDS_PER_JOB + 3600 * sum(hours[name].mid for name in bundle.runs)
        for bundle in training
        if not plan.paths.trained(bundle.name).exists()
    }


def _bundles(
    parts: Sequence[Sequence[Member]], config: Config, content: Callable[[str, Cell], str]
) -> dict[str, Bundle]:
    """Bundle the members of each part into the longest jobs of which there are two for each place.

    Places are rounded up to a power of two, and lengths are powers of two: few more cores regroup nothing.
    """
    places = config.parallel_jobs or PLACES_IF_UNKNOWN
    wanted = 2 << (places - 1).bit_length()
    for minutes in LENGTHS if config.parallel_jobs else LENGTHS_IF_UNKNOWN:
        groups = [group for part in parts for group in _grouped(part, minutes)]
        if len(groups) >= wanted:
            break
    bundles = {}
    for group in groups:
        runs = {name: run for name, run, _ in sorted(group, key=lambda member: member[0])}
        name = name_of({name: run.cell for name, run in runs.items()}, content)
        bundles[name] = Bundle(name, group[0][1].cell.task, runs, sum(seconds for *_, seconds in group))
    return bundles


def _grouped(members: Iterable[Member], minutes: float) -> list[list[Member]]:
    """Group the members of each task, up to these minutes. A longer member is a group of its own."""
    by_task: dict[Task, list[Member]] = {}
    for member in members:
        by_task.setdefault(member[1].cell.task, []).append(member)
    found, limit = list[list[Member]](), 60 * minutes
    for same in by_task.values():
        found += [[member] for member in same if member[2] >= limit]
        found += _halved([member for member in same if member[2] < limit], limit)
    return found


def _halved(members: list[Member], limit: float, level: int = 0) -> list[list[Member]]:
    """Halve members by the next bit of a hash of their name until each part fits: one more changes one part."""
    if sum(seconds for *_, seconds in members) <= limit or level == HASH_BITS:
        return [members] if members else []
    halves: tuple[list[Member], list[Member]] = [], []
    for member in members:
        halves[int(digest(member[0], HASH_BITS // 4), 16) >> level & 1].append(member)
    return [part for half in halves for part in _halved(half, limit, level + 1)]


def forget_changed(plan: Plan, training: Iterable[Bundle], calibrations: Iterable[Bundle]) -> None:
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
    """Write the file of every bundle; one that would be the same is left alone.

    Raises UserError for two runs that would draw the same noise.
    """
    check_noise(plan.cells.values())
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
