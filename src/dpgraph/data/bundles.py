"""Bundles: cells of one task that share a job, so that thousands of short cells are not thousands of jobs.

Starting a job costs seconds (an interpreter, torch, on a cluster two more Snakemakes) and a place in the queue. What a
job asks for is estimated from the registry's sizes and the cell's hyper-parameters, since no data is there yet when the
jobs are planned.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpgraph.data.registry import entry
from dpgraph.errors import UserError
from dpgraph.experiments.cell import Cell, Task
from dpgraph.experiments.frozen import digest
from dpgraph.experiments.paths import Paths
from dpgraph.experiments.plan import Plan
from dpgraph.files import cause, read_json

PLANNED = "DPGRAPH_PLANNED"  # when the running Snakemake read the plan, for its jobs; nanoseconds
SECONDS_PER_CALIBRATION = 4.0
STEPS_IF_OPEN = 2000  # of a cell that trains as long as its budget lasts
FLOPS_PER_SECOND = 20e9  # float32 on one CPU core
SECONDS_PER_STEP = 1.5e-3  # what a step costs whatever its size
SAFETY = 4  # time limit of a job over its estimate: measured cells lie within a factor of three, slower cores exist


@dataclass(frozen=True)
class Size:
    """What the registry expects of a task's graph; guesses where it says nothing."""

    nodes: int
    entries: int
    features: int
    classes: int
    train_nodes: int

    @property
    def megabytes(self) -> float:
        """Features in float32; both directions of the edges as indices and weights."""
        return (4 * self.nodes * self.features + 24 * self.entries) / 2**20


@cache
def size_of(task: Task) -> Size:
    expected = entry(task.dataset).expected
    nodes = expected.nodes or 20_000
    entries = expected.entries if expected.entries is not None else round((expected.mean_degree or 10) * nodes)
    features = expected.features or 2_000
    if task.features.startswith("project-"):
        features = min(features, int(task.features.removeprefix("project-")))
    train = round(0.7 * nodes)
    if expected.split is not None:
        train = expected.split[0] if task.split == "public" else nodes - sum(expected.split[1:])
    if task.split.startswith(("random-", "ratio-")):
        train = nodes * int(task.split.split("-")[1]) // 100
    return Size(nodes, entries, features, expected.classes or 10, max(train, 1))


def train_seconds(cell: Cell) -> float:
    """Estimate for all seeds on one CPU core, from the products with weight matrices that the steps need."""
    size, model, training = size_of(cell.task), cell.model, cell.training
    first = size.features * model.width
    others = model.encoder_layers + model.decoder_layers + model.hops - 1
    rest = others * model.width**2 + model.width * size.classes
    if training.num_splits is not None:
        roots = size.train_nodes / training.num_splits
    elif training.batch_size is not None:
        roots = min(training.batch_size, size.train_nodes)
    else:
        roots = (training.sampling_rate or 1.0) * size.train_nodes
    nodes = roots if model.architecture == "kipf" else roots * _tree(cell, size)
    steps = STEPS_IF_OPEN if training.steps == "max" else training.steps
    step = SECONDS_PER_STEP + nodes * (4 * first + 6 * rest) / FLOPS_PER_SECOND
    look = size.nodes * 2 * (first + rest) / FLOPS_PER_SECOND
    return len(cell.seeds) * (0.5 + steps * step + training.evaluations * look)


def _tree(cell: Cell, size: Size) -> float:
    """Nodes that a root's prediction reads: 1 + K + ... + K^r, K no longer than a mean list."""
    degree = size.entries / size.nodes
    cap = cell.training.max_degree if cell.privacy is None else (cell.privacy.list_cap or cell.privacy.max_degree)
    if cap is not None:
        degree = min(degree, cap)
    return sum(degree**hop for hop in range(cell.model.hops + 1))


def memory_mb(task: Task) -> int:
    """Of a job that trains or prepares the task's graph: libraries, and the graph with three copies for work on it."""
    return math.ceil(1500 + 4 * size_of(task).megabytes)


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
            ((cell.slug, cell, train_seconds(cell)) for cell in cells), 60 * plan.config.minutes_per_job, _trained
        )
    }


def calibration_bundles(plan: Plan) -> dict[str, Bundle]:
    """Every calibration in one bundle, by the bundle's name."""
    items = ((key, cell, SECONDS_PER_CALIBRATION) for key, cell in plan.calibrations.items())
    return {bundle.name: bundle for bundle in _bundled(items, 60 * plan.config.minutes_per_job, lambda key, _: key)}


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
        found: dict[str, list[tuple[str, Cell, float]]] = {}
        for name, cell, seconds in members:
            place = name if seconds >= limit else str(int(digest(name, 8), 16) % shares)
            found.setdefault(place, []).append((name, cell, seconds))
        for group in found.values():
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

    Snakemake knows markers only; this is how it notices that somebody deleted or damaged a cell's record. Only members
    younger than the marker are read: a touched file is no other file. The next job of a bundle without a marker, or
    with one whose job outlived its Snakemake, is no forced rerun: it leaves alone what is there. Raises UserError for a
    marker that may not be removed.
    """
    paths = Paths(plan.config)
    os.environ[PLANNED] = str(time.time_ns())
    for bundle in training:
        marker = paths.trained(bundle.name)
        stands = _stands(marker, {name: paths.result(plan.cells[name]) for name in bundle.members})
        if not stands:
            _remove(marker)
        if not stands or _begun(marker):
            _remove(last_asked(marker))
    for bundle in calibrations:
        marker = paths.calibrated(bundle.name)
        if not _stands(marker, {key: paths.privacy / f"{key}.json" for key in bundle.members}):
            _remove(marker)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{cause(error)} (it does not say what is there, and has to go)") from None


def _stands(marker: Path, members: Mapping[str, Path]) -> bool:
    try:
        written = marker.stat().st_mtime_ns
        younger = [name for name, path in members.items() if path.stat().st_mtime_ns > written]
        noted = read_json(marker) if younger else {}
        return all(noted[name] == content(members[name]) for name in younger)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _begun(marker: Path) -> bool:
    """Whether a Snakemake began a job for the marker and has not seen its end: killed, or at work right now."""
    return Path(".snakemake/incomplete", urlsafe_b64encode(str(marker).encode()).decode()).exists()


def last_asked(marker: Path) -> Path:
    """What the last good job of a bundle was asked for: Snakemake removes the marker before it runs a job again."""
    return marker.with_suffix(".last")


def is_forced(marker: Path, asked: str) -> bool:
    """Whether the last good job was asked for the same, and ended before the running Snakemake made its plan."""
    last = last_asked(marker)
    try:
        before_plan = last.stat().st_mtime_ns <= int(os.environ.get(PLANNED) or time.time_ns())
        return before_plan and last.read_text(encoding="utf-8") == asked
    except OSError:
        return False


def content(path: Path) -> str:
    """Hash that markers hold of each member."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
