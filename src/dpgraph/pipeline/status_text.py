"""The status of a suite for people: a page of text, and one live line."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from tabulate import tabulate

from dpgraph.pipeline.status import RECORDED, STATES, CellState, JobState, Left, Status, Watcher
from dpgraph.progress import duration, last_lines

SHOWN = 10  # jobs of one kind, reasons of failures
LOG_LINES = 4
TERMINAL_SECONDS, LOG_SECONDS = 2.0, 30.0


def print_status(watcher: Watcher, as_json: bool = False, watched: bool = False) -> None:
    if watched:
        watch(watcher)
    elif as_json:
        print(json.dumps(watcher.status().json(), indent=1, ensure_ascii=False))
    else:
        print(page(watcher.status()))


def page(status: Status) -> str:
    parts = [f"suite {status.suite}: {status.folder}", _table(status)]
    parts += [*_by_reason(status, "failed"), *_by_reason(status, "not run")]
    parts += [*_jobs(status, "stopped"), *_jobs(status, "running")]
    partly = [slug for slug, cell in status.in_state("ok").items() if cell.failed_seeds]
    if partly:
        parts.append(f"ok, but with seeds that failed: {len(partly)} cells, e.g. {partly[0]}")
    if status.left is not None:
        parts.append(left_text(status.left))
    return "\n\n".join([*parts, line(status)])


def line(status: Status) -> str:
    """E.g. `312 of 844 cells: 300 ok, 4 failed, 8 not run; 2 running, 530 waiting`."""
    counts = status.counts
    done = ", ".join(f"{counts[state]} {state}" for state in RECORDED if counts[state] or state == "ok")
    rest = ", ".join(f"{counts[state]} {state}" for state in STATES if state not in RECORDED and counts[state])
    total = len(status.cells)
    return f"{total - status.open} of {total} cells: {done}" + (f"; {rest}" if rest else "")


def left_text(left: Left) -> str:
    """Return how much training is left, and what the estimate does not include."""
    text = f"about {duration(left.seconds)} of training left, one job at a time"
    if left.wall_seconds is not None:
        text += f"; about {duration(left.wall_seconds)} at the pace of the last hour"
    if left.unmeasured:
        text += f" (rough: no cell of {', '.join(left.unmeasured)} has finished)"
    return text


def _table(status: Status) -> str:
    states = [state for state in STATES if status.counts[state] or state == "ok"]
    rows = [
        [paper, dataset, sum(counts.values()), *(counts[state] or "" for state in states)]
        for (paper, dataset), counts in status.rows.items()
    ]
    return tabulate(rows, headers=["paper", "data set", "cells", *states], tablefmt="plain")


def _by_reason(status: Status, state: str) -> Iterator[str]:
    """One part for each reason: its cells are counted, the first one is named with the end of its log."""
    by_reason: dict[str, list[str]] = {}
    for slug, cell in status.in_state(state).items():
        by_reason.setdefault(_general(cell), []).append(slug)
    ordered = sorted(by_reason.values(), key=len, reverse=True)
    for slugs in ordered[:SHOWN]:
        first = slugs[0]
        named = first if len(slugs) == 1 else f"{len(slugs)} cells, e.g. {first}"
        text = f"{state}: {named}\n  {status.cells[first].reason or 'no reason was recorded'}"
        if state == "failed":
            text += _log(status.logs[first], first)
        yield text
    if len(ordered) > SHOWN:
        yield f"{state}: {len(ordered) - SHOWN} more reasons; --json has all"


def _general(cell: CellState) -> str:
    """The reason without its numbers: steps and norms differ from cell to cell."""
    return "".join("#" if character.isdigit() else character for character in cell.reason)


def _log(path: str, cell: str) -> str:
    lines = last_lines(Path(path), 200)
    own = [text for text in lines if cell in text] or lines
    return f"\n  {path}" + "".join(f"\n  | {text}" for text in own[-LOG_LINES:])


def _jobs(status: Status, state: str) -> Iterator[str]:
    jobs = [job for job in status.jobs if job.state == state]
    for job in jobs[:SHOWN]:
        lines = job.last_lines(LOG_LINES if state == "stopped" else 1)
        yield f"{_head(job)}\n  {job.log}" + "".join(f"\n  | {text}" for text in lines or ["(the log is empty)"])
    if len(jobs) > SHOWN:
        yield f"{state}: {len(jobs) - SHOWN} more jobs; --json has all"


def _head(job: JobState) -> str:
    state = "stopped without a result" if job.state == "stopped" else job.state
    text = f"{state}: {job.rule} {job.name}".rstrip()
    if job.lacking:
        text += f", {job.members - job.lacking} of {job.members} cells there"
    return f"{text}; last sign of life {duration(job.silent_seconds)} ago"


def watch(watcher: Watcher, stream: TextIO | None = None, sleep: Callable[[float], None] = time.sleep) -> Status:
    """Repeat the line until every cell has a record: in place on a terminal, else one every half minute."""
    stream = sys.stdout if stream is None else stream
    terminal = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    while True:
        status = watcher.status()
        text = line(status)
        if status.left is not None and status.left.wall_seconds is not None:
            text += f", about {duration(status.left.wall_seconds)} left"
        if terminal:
            stream.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
        else:
            stream.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        stream.flush()
        if not status.open:
            break
        try:
            sleep(TERMINAL_SECONDS if terminal else LOG_SECONDS)
        except KeyboardInterrupt:
            break
    if terminal:
        stream.write("\n")
    return status
