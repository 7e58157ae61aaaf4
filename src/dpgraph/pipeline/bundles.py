"""Bundles: cells of one task that share a job, so that thousands of short cells are not thousands of jobs.

Starting a job costs seconds (an interpreter, torch, on a cluster two more Snakemakes) and a place in the queue. What a
job requests is estimated from the registry's sizes and the cell's hyper-parameters, since no data is there yet when the
jobs are planned.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dpgraph.config.cell import Cell, Task
from dpgraph.config.frozen import digest
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.core.files import cause, read_json
from dpgraph.planning.cost import hours_of, known_of, memory_mb, train_seconds
from dpgraph.planning.plan import Plan

PLANNED = "DPGRAPH_PLANNED"  # when the running Snakemake read the plan, for its jobs; nanoseconds
SECONDS_PER_CALIBRATION = 4.0
SECONDS_PER_JOB = 8.0  # an interpreter and torch
SAFETY = 4  # time limit of a job over its estimate: measured cells are within a factor of three, slower cores exist


@dataclass(frozen=True)
class Bundle:
    """`members` are slugs of cells or keys of calibrations; `seconds` is the estimate for all of them on one core."""

    name: str
    task: Task
    members: tuple[str, ...]
    seconds: float

    def minutes(self, attempt: int) -> int:
        """Time limit; each attempt of a job gets more."""
        return attempt * math.ceil(10 + SAFETY * self.seconds / 60)

    def memory_mb(self, attempt: int) -> int:
        return attempt * memory_mb(self.task)


def training_bundles(plan: Plan) -> dict[str, Bundle]:
    """Every cell in one bundle, by the bundle's name. A search shares none with what is not in it."""
    searched = {entry.cell.slug for entry in plan.entries if plan.artefacts[entry.artefact].view == "search"}
    parts = ([cell for slug, cell in plan.cells.items() if slug in searched],
             [cell for slug, cell in plan.cells.items() if slug not in searched])  # fmt: skip
    return {
        bundle.name: bundle
        for cells in parts
        for bundle in _bundled(
            ((cell.slug, cell, train_seconds(cell)) for cell in cells), 60 * plan.minutes_per_job, _trained
        )
    }


def calibration_bundles(plan: Plan) -> dict[str, Bundle]:
    """Every calibration in one bundle, by the bundle's name."""
    items = ((key, cell, SECONDS_PER_CALIBRATION) for key, cell in plan.calibrations.items())
    return {bundle.name: bundle for bundle in _bundled(items, 60 * plan.minutes_per_job, lambda key, _: key)}


def seconds_to_run(plan: Plan, training: Iterable[Bundle]) -> dict[str, float]:
    """Return the estimated seconds of the jobs of all bundles without a marker."""
    hours = hours_of(plan.cells, known_of(plan))
    paths = Paths(plan.config)
    return {
        bundle.name: SECONDS_PER_JOB + 3600 * sum(hours[name].mid for name in bundle.members)
        for bundle in training
        if not paths.trained(bundle.name).exists()
    }


def calibrations_of(plan: Plan, bundle: Bundle) -> list[str]:
    """Keys of the calibrations that the cells of a training bundle need."""
    keys = (plan.cells[name].calibration_key for name in bundle.members)
    return list(dict.fromkeys(key for key in keys if key is not None))


def _trained(slug: str, cell: Cell) -> str:
    return f"{slug}:{','.join(map(str, cell.seeds))}"


def _bundled(
    items: Iterable[tuple[str, Cell, float]], limit: float, content: Callable[[str, Cell], str]
) -> list[Bundle]:
    """Members go by a hash of their name, so that one more changes one bundle; the name is a hash of the content."""
    by_task: dict[Task, list[tuple[str, Cell, float]]] = {}
    for item in items:
        by_task.setdefault(item[1].task, []).append(item)
    bundles = []
    for task, members in by_task.items():
        short = sum(seconds for *_, seconds in members if seconds < limit)
        shares = 1 << max(math.ceil(math.log2(max(short, 1e-9) / limit)), 0)
        groups: dict[str, list[tuple[str, Cell, float]]] = {}
        for name, cell, seconds in members:
            place = name if seconds >= limit else str(int(digest(name, 8), 16) % shares)
            groups.setdefault(place, []).append((name, cell, seconds))
        for group in groups.values():
            ordered = sorted(group, key=lambda item: item[0])
            mark = digest([content(name, cell) for name, cell, _ in ordered], 8)
            count = f"{len(ordered)}-{mark}" if len(ordered) > 1 else f"{ordered[0][0].rsplit('.', 1)[-1]}-{mark}"
            bundles.append(
                Bundle(
                    name=f"{task.dataset}-{task.setting}.{count}",
                    task=task,
                    members=tuple(name for name, *_ in ordered),
                    seconds=sum(seconds for *_, seconds in ordered),
                )
            )
    return bundles


def forget_unfinished(plan: Plan, training: Iterable[Bundle], calibrations: Iterable[Bundle]) -> None:
    """Remove the marker of every bundle of which a member is gone or no longer what it was when the bundle ended.

    Snakemake sees markers only; this is how it notices that a cell's record was deleted or damaged. Only members
    younger than the marker are read: a touched file is no other file. The next job of a bundle without a marker, or
    with one whose job outlived its Snakemake, is no forced rerun: it does not change existing files. Raises UserError
    for a marker that may not be removed.
    """
    paths = Paths(plan.config)
    os.environ[PLANNED] = str(time.time_ns())
    for bundle in training:
        marker = paths.trained(bundle.name)
        stands = _stands(marker, ((name, paths.result(plan.cells[name])) for name in bundle.members))
        if not stands:
            _remove(marker)
        if not stands or _begun(marker):
            _remove(last_asked(marker))
    for bundle in calibrations:
        marker = paths.calibrated(bundle.name)
        if not _stands(marker, ((key, paths.privacy / f"{key}.json") for key in bundle.members)):
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


def _begun(marker: Path) -> bool:
    """Return whether a Snakemake began a job for the marker and has not seen its end: killed, or at work right now."""
    return Path(".snakemake/incomplete", urlsafe_b64encode(str(marker).encode()).decode()).exists()


def last_asked(marker: Path) -> Path:
    """Return the file of what a bundle's last good job was asked for: Snakemake removes the marker before a rerun."""
    return marker.with_suffix(".last")


def is_forced(marker: Path, asked: str) -> bool:
    """Return whether the last good job was asked for the same, and ended before the running Snakemake made its plan."""
    last = last_asked(marker)
    try:
        before_plan = last.stat().st_mtime_ns <= int(os.environ.get(PLANNED) or time.time_ns())
        return before_plan and last.read_text(encoding="utf-8") == asked
    except OSError:
        return False


def content(path: Path) -> str:
    """Hash that markers hold of each member."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
