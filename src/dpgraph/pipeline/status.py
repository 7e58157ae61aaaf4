"""What the files of a suite show of its cells and jobs: while Snakemake runs, after it was killed, on another machine.

Neither Snakemake nor a cluster is queried. A job counts as running while Snakemake has it marked as begun and its
log or its results changed a short while ago.
"""

from __future__ import annotations

import math
import os
import re
import time
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dpgraph.experiments.cell import Cell
from dpgraph.experiments.paths import Paths
from dpgraph.experiments.summary import RESULT, summary_of
from dpgraph.pipeline.bundles import Bundle, calibration_bundles, training_bundles
from dpgraph.planning.cost import train_seconds
from dpgraph.planning.plan import Plan
from dpgraph.progress import last_lines

STATES = ("ok", "failed", "not run", "running", "stopped", "waiting")
RECORDED = ("ok", "failed", "not run")
SILENT_SECONDS = 600.0  # logs get a line every few seconds and checkpoints are written every minute
PACE_SECONDS = 3600.0
ENDED = re.compile(r": (ok|failed|not run)\b")
ERROR = re.compile(r"\berror\b|Error\b|Traceback|Killed|Cannot allocate|No space left")


@dataclass(frozen=True)
class CellState:
    """`seconds` of training, summed over seeds; `written` is the time of the record (seconds since the epoch)."""

    state: str
    reason: str = ""
    seconds: float = 0.0
    seeds: frozenset[int] = frozenset()
    failed_seeds: int = 0
    written: float = 0.0


@dataclass(frozen=True)
class JobState:
    """A job that is running, or that ended without what it was to make."""

    rule: str
    name: str
    state: str
    log: str
    silent_seconds: float
    lacking: int  # cells without a record; 0 for jobs that train none
    members: int

    def last_lines(self, count: int) -> list[str]:
        return last_lines(Path(self.log), count)


@dataclass(frozen=True)
class Left:
    """Training that is left, from the seconds of finished cells, scaled by the estimated size of the others.

    `seconds` are those of one job at a time; `wall_seconds` those at the pace of the last hour, None where nothing
    finished in it; `unmeasured` are methods of which no cell has finished.
    """

    seconds: float
    wall_seconds: float | None
    unmeasured: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    suite: str
    folder: str
    cells: dict[str, CellState]
    rows: dict[tuple[str, str], Counter[str]]  # states by paper and data set; a cell that two papers use counts in both
    jobs: tuple[JobState, ...]
    left: Left | None
    logs: dict[str, str] = field(default_factory=dict)  # by cell, of the job that trains it

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(cell.state for cell in self.cells.values())

    def in_state(self, state: str) -> dict[str, CellState]:
        return {slug: cell for slug, cell in self.cells.items() if cell.state == state}

    @property
    def open(self) -> int:
        """Cells without a record."""
        return sum(count for state, count in self.counts.items() if state not in RECORDED)

    def json(self) -> dict[str, Any]:
        unfinished = {slug: cell for slug, cell in self.cells.items() if cell.state != "ok"}
        return {
            "suite": self.suite,
            "folder": self.folder,
            "counts": {state: self.counts[state] for state in STATES},
            "papers": [
                {"paper": paper, "dataset": dataset, **{state: counts[state] for state in STATES}}
                for (paper, dataset), counts in self.rows.items()
            ],
            "cells": [
                {"cell": slug, "state": cell.state, "reason": cell.reason, "log": self.logs.get(slug)}
                for slug, cell in unfinished.items()
            ],
            "jobs": [
                {
                    "rule": job.rule,
                    "name": job.name,
                    "state": job.state,
                    "log": job.log,
                    "silent_seconds": round(job.silent_seconds),
                    "last_lines": job.last_lines(3),
                }
                for job in self.jobs
            ],
            "left": None
            if self.left is None
            else {
                "seconds": round(self.left.seconds),
                "wall_seconds": None if self.left.wall_seconds is None else round(self.left.wall_seconds),
                "unmeasured": list(self.left.unmeasured),
            },
        }


class Watcher:
    """Reads the status again and again; a record that has not changed is read once."""

    def __init__(self, plan: Plan, logs: Path = Path("logs"), snakemake: Path = Path(".snakemake")) -> None:
        self.plan, self.paths = plan, Paths(plan.config)
        self.logs, self.snakemake = logs, snakemake
        self.bundles = training_bundles(plan)
        self.outputs = list(self._outputs())
        self._records: dict[str, tuple[tuple[int, int], CellState]] = {}

    def status(self, now: float | None = None) -> Status:
        now = time.time() if now is None else now
        begun = _marked_as_begun(self.snakemake / "incomplete")
        there = set(_names(self.paths.suite / "cells"))
        cells: dict[str, CellState] = {}
        jobs: list[JobState] = []
        logs: dict[str, str] = {}
        for bundle in self.bundles.values():
            log = self._log("train", bundle.name)
            logs |= dict.fromkeys(bundle.members, str(log))
            records = {slug: self._record(self.plan.cells[slug]) if slug in there else None for slug in bundle.members}
            cells |= {slug: state for slug, state in records.items() if state is not None}
            lacking = [slug for slug, state in records.items() if state is None]
            if lacking:
                job, states = self._unfinished(bundle, lacking, there, log, begun, now)
                cells |= states
                jobs += [job] if job is not None else []
        jobs += self._other_jobs(begun, now)
        cells = {slug: cells[slug] for slug in self.plan.cells}
        return Status(
            suite=self.plan.suite.name,
            folder=str(self.paths.suite),
            cells=cells,
            rows=self._rows(cells),
            jobs=tuple(sorted(jobs, key=lambda job: (job.state, job.rule, job.name))),
            left=self._left(cells, now),
            logs=logs,
        )

    @cached_property
    def _cells(self) -> str:
        return str(self.paths.suite / "cells")

    @cached_property
    def _estimates(self) -> dict[str, float]:
        return {slug: train_seconds(cell) for slug, cell in self.plan.cells.items()}

    def _log(self, rule: str, name: str) -> Path:
        return self.logs / self.plan.config.suite / rule / f"{name}.log"

    # ---- cells -------------------------------------------------------------------------------------------------------

    def _record(self, cell: Cell) -> CellState | None:
        """Return None where there is no record, or it lacks seeds of the plan."""
        folder = f"{self._cells}/{cell.slug}"
        try:
            stat = os.stat(f"{folder}/{RESULT}")
        except OSError:
            return None
        mark = (stat.st_mtime_ns, stat.st_size)
        known = self._records.get(folder)
        if known is None or known[0] != mark:
            self._records[folder] = known = (mark, _read_state(folder, stat.st_mtime))
        state = known[1]
        return state if not state.seeds or set(cell.seeds) <= state.seeds else None

    def _unfinished(
        self, bundle: Bundle, lacking: list[str], there: set[str], log: Path, begun: set[str] | None, now: float
    ) -> tuple[JobState | None, dict[str, CellState]]:
        """The job of a bundle with cells that have no record, and what these cells are."""
        cells = self.plan.cells
        traces = {slug: _newest(self.paths.cell(cells[slug])) if slug in there else None for slug in lacking}
        written = _modified(log)
        last = last_lines(log) if written is not None else []
        silent = now - max((sign for sign in (written, *traces.values()) if sign is not None), default=-math.inf)
        marked = begun is None or written is None or str(self.paths.trained(bundle.name)) in begun
        if marked and silent < SILENT_SECONDS:
            states = {slug: "waiting" if trace is None else "running" for slug, trace in traces.items()}
            job = "running"
        elif written is None or (last and _ended_well(last[0], bundle.members[-1])):
            return None, dict.fromkeys(lacking, CellState("waiting"))  # or somebody has deleted the records since
        else:
            states, job = dict.fromkeys(lacking, "stopped"), "stopped"
        job_state = JobState("train", bundle.name, job, str(log), silent, len(lacking), len(bundle.members))
        return job_state, {slug: CellState(state) for slug, state in states.items()}

    def _rows(self, cells: dict[str, CellState]) -> dict[tuple[str, str], Counter[str]]:
        seen: dict[tuple[str, str], set[str]] = {}
        for entry in self.plan.entries:
            if entry.cell.slug in cells:
                seen.setdefault((entry.paper, entry.cell.task.dataset), set()).add(entry.cell.slug)
        return {place: Counter(cells[slug].state for slug in slugs) for place, slugs in sorted(seen.items())}

    # ---- other jobs --------------------------------------------------------------------------------------------------

    def _other_jobs(self, begun: set[str] | None, now: float) -> Iterator[JobState]:
        """Yield jobs whose output is missing though they have a log: running, or ended with an error."""
        for rule, name, log, output in (*self.outputs, *self._calibrations()):
            written = _modified(log)
            if written is None or output.exists():
                continue
            silent = now - written
            marked = begun is not None and str(output) in begun
            if silent < SILENT_SECONDS and (marked or begun is None):
                yield JobState(rule, name, "running", str(log), silent, 0, 1)
            elif marked or any(ERROR.search(line) for line in last_lines(log, 5)):
                yield JobState(rule, name, "stopped", str(log), silent, 0, 1)

    def _calibrations(self) -> Iterator[tuple[str, str, Path, Path]]:
        """Their names take long to compute: only where one of those with a log has not ended."""
        logs = {Path(name).stem for name in _names(self.logs / self.plan.config.suite / "calibrate")}
        if any(not self.paths.calibrated(name).exists() for name in logs):
            for name in logs & set(self._calibration_bundles):
                yield "calibrate", name, self._log("calibrate", name), self.paths.calibrated(name)

    @cached_property
    def _calibration_bundles(self) -> dict[str, Bundle]:
        return calibration_bundles(self.plan)

    def _outputs(self) -> Iterator[tuple[str, str, Path, Path]]:
        """(rule, name, log, one of its outputs), as the rules name them."""
        plan, paths, suite = self.plan, self.paths, self.logs / self.plan.config.suite
        for task in dict.fromkeys(plan.task(name) for name in plan.suite.tasks):
            folder = task.folder.replace("/", ".")
            yield "preprocess", task.folder, self.logs / "preprocess" / f"{folder}.log", paths.graph_record(task)
        for dataset in dict.fromkeys(plan.task(name).dataset for name in plan.suite.tasks):
            yield "download", dataset, self.logs / "download" / f"{dataset}.log", paths.manifest(dataset)
        yield "aggregate", "", suite / "aggregate.log", paths.results
        for artefact, described in plan.artefacts.items():
            rule = "search" if described.view == "search" else described.kind
            output = paths.figure(artefact, "png") if described.kind == "figure" else paths.table(artefact, "csv")
            yield rule, artefact, self._log(rule, artefact.replace("/", ".")), output
        yield "claims", "", suite / "claims.log", paths.claims
        yield "runtimes", "", suite / "runtimes.log", paths.suite / "runtimes.csv"
        yield "index", "", suite / "index.log", paths.index
        yield "report", "", suite / "report.log", paths.report

    # ---- time --------------------------------------------------------------------------------------------------------

    def _left(self, cells: dict[str, CellState], now: float) -> Left | None:
        """Return None where nothing is left, or no cell has finished."""
        spent: Counter[str] = Counter()
        expected: Counter[str] = Counter()
        recent: list[CellState] = []
        for slug, cell in cells.items():
            if cell.state == "ok" and cell.seconds > 0:
                method = self.plan.cells[slug].method
                spent[method] += cell.seconds  # type: ignore[assignment]
                expected[method] += self._estimates[slug]  # type: ignore[assignment]
                if now - cell.written < PACE_SECONDS:
                    recent.append(cell)
        todo = [slug for slug, cell in cells.items() if cell.state not in RECORDED]
        if not spent or not todo:
            return None
        overall = sum(spent.values()) / sum(expected.values())
        seconds, unmeasured = 0.0, dict[str, None]()
        for slug in todo:
            method = self.plan.cells[slug].method
            if method not in spent:
                unmeasured[method] = None
            ratio = spent[method] / expected[method] if method in spent else overall
            seconds += self._estimates[slug] * ratio
        return Left(seconds, _wall_seconds(seconds, recent, now), tuple(unmeasured))


def _wall_seconds(seconds: float, recent: list[CellState], now: float) -> float | None:
    """At as many seconds of training per second as lately, since the first of the recent cells began."""
    if not recent:
        return None
    window = min(PACE_SECONDS, now - min(cell.written - cell.seconds for cell in recent))
    return seconds * window / sum(cell.seconds for cell in recent) if window > 0 else None


def _read_state(folder: str, written: float) -> CellState:
    try:
        summary = summary_of(folder)
    except (OSError, ValueError):
        return CellState("failed", "the record is damaged: delete it and run again", written=written)
    return CellState(
        state=summary.status,
        reason=summary.reason,
        seconds=summary.seconds,
        seeds=frozenset(summary.seeds),
        failed_seeds=summary.failed_seeds,
        written=written,
    )


def _ended_well(line: str, member: str) -> bool:
    return member in line and ENDED.search(line) is not None


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _newest(folder: Path) -> float | None:
    """When something in the folder was last written; None: it is empty or not there."""
    try:
        with os.scandir(folder) as entries:
            return max((entry.stat().st_mtime for entry in entries), default=None)
    except OSError:
        return None


def _marked_as_begun(folder: Path) -> set[str] | None:
    """Outputs of jobs that Snakemake has begun and not seen the end of; None where it keeps no such marks."""
    if not folder.is_dir():
        return None
    begun = set()
    for path in folder.rglob("*"):
        # long names are split into folders that begin with @
        text = "".join(part.removeprefix("@") for part in path.relative_to(folder).parts)
        try:
            begun.add(urlsafe_b64decode(text).decode())
        except (NotBase64, UnicodeDecodeError):
            continue
    return begun
