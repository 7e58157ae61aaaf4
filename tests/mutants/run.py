"""Plant each bug in a process of its own and run the test, or the audit, that must notice it.

`python -m tests.mutants.run [--slowest N] [--jobs N] [NAME ...]`. A bug that survives, one that cannot be planted, and
one that breaks more than the test (a failed import proves nothing) make the command fail. Named tests and audits first
pass without a bug. Every process is forked from one that has imported the package, so that a bug costs its test and
little else.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.mutants.planting import Audit, Bug, CannotPlantError, Place, plant

ROOT = Path(__file__).resolve().parents[2]
# imported once, before forking; torch imports the last three itself, with the first optimiser and the first layer on no
# device
HEAVY = ("pytest", "hypothesis", "pandas", "dp_accounting.pld.privacy_loss_distribution", "dp_accounting.rdp",
         "dpgraph.audits.registry", "dpgraph.own_graph.fit",
         "torch._dynamo", "torch._refs", "torch._meta_registrations")  # fmt: skip
SEEDED = ("--hypothesis-seed=0",)  # a bug that is noticed once is noticed always
LIMIT = 300  # seconds for one bug, before its process counts as hanging, which is no way to be noticed


def judge(bug: Bug) -> str:
    """Plant the bug and return why it counts as not caught, "" if it is caught."""
    try:
        plant(bug)
    except CannotPlantError as error:
        return f"cannot be planted: {error}"
    return _by_audit(bug.noticed_by) if isinstance(bug.noticed_by, Audit) else _by_test(bug.noticed_by)


def sound(noticed_by: tuple[str, ...] | Audit) -> str:
    """Return why tests of one file, or an audit, do not pass without any bug, "" if they pass."""
    if isinstance(noticed_by, Audit):
        from dpgraph.audits.registry import run_audit

        result = run_audit(noticed_by.name, noticed_by.trials)
        return "" if result.passed else f"fails without a bug: {result.finding}"
    status, said = _pytest(*noticed_by)
    return f"a named test fails without a bug: {said[-1]}" if status else ""


def _pytest(*tests: str) -> tuple[int, list[str]]:
    """Return pytest's exit status and the lines of its output."""
    import pytest

    written = io.StringIO()
    os.chdir(ROOT)
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "", *SEEDED]
        status = pytest.main([*options, *tests])
    return int(status), written.getvalue().strip().splitlines() or [""]


def _by_test(test: str) -> str:
    status, said = _pytest(test)
    stray = next((line for line in said if line.startswith("E ") and "NameError" in line), "")
    if status == 1 and re.search(r"\d+ failed", said[-1]) and not stray:
        return ""
    why = "SURVIVES" if status == 0 else f"breaks more than the test (pytest ended with {status})"
    return f"{why}: {test}: {stray or said[-1]}"


def _by_audit(audit: Audit) -> str:
    from dpgraph.audits.registry import run_audit

    for case, only in _cases(audit):
        try:
            with only:
                result = run_audit(audit.name, audit.trials)
        except Exception as error:
            return f"breaks more than the audit {audit.name}: {type(error).__name__}: {error}"
        if result.passed:
            return f"SURVIVES: audit {audit.name}{f' of {case}' if case else ''}: {result.finding}"
    return ""


def _cases(audit: Audit) -> Iterator[tuple[str, contextlib.AbstractContextManager[object]]]:
    """Give the audit as it is, or each of its cases alone; raise ValueError where there is none."""
    from unittest.mock import patch

    from dpgraph.audits.cases import KINDS

    if audit.cases is None:
        yield "", contextlib.nullcontext()
        return
    chosen = {name: kind for name, kind in KINDS.items() if audit.cases(kind)}
    if not chosen:
        raise ValueError(f"audit {audit.name}: no case is chosen")
    for name, kind in chosen.items():
        yield name, patch.dict(KINDS, {name: kind}, clear=True)


def chosen_bugs(names: list[str]) -> list[Bug]:
    """Return the bugs whose names begin so, or all. Raises SystemExit for a name of none."""
    from tests.mutants.catalogue import BUGS

    unknown = {name for name in names if not any(bug.name.startswith(name) for bug in BUGS)}
    if unknown:
        raise SystemExit(f"error: bug={sorted(unknown)[0]}: expected the beginning of a bug's name")
    return [bug for bug in BUGS if not names or bug.name.startswith(tuple(names))]


@dataclass(frozen=True)
class Task:
    """What a process of its own is to find out: "" for good."""

    name: str
    good: str
    call: Callable[[Any], str]
    given: Any


def tasks_of(bugs: list[Bug]) -> list[Task]:
    """Return one task per bug, after those that run the named tests and audits without any."""
    files: dict[str, set[str]] = {}
    for bug in bugs:
        if isinstance(bug.noticed_by, str):
            files.setdefault(bug.noticed_by.partition("::")[0], set()).add(bug.noticed_by)
    audits = {(one.name, one.trials): one for one in (bug.noticed_by for bug in bugs) if isinstance(one, Audit)}
    found = [Task(f"no bug: {file}", "passes", sound, tuple(sorted(tests))) for file, tests in files.items()]
    found += [Task(f"no bug: audit {name}, {trials or 'its'} trials", "passes", sound, one)
              for (name, trials), one in audits.items()]  # fmt: skip
    return [*found, *(Task(bug.name, "caught", judge, bug) for bug in bugs)]


def main(names: list[str], slowest: int = 0, jobs: int | None = None) -> int:
    """Print a line per task and return the exit status."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in HEAVY:
        importlib.import_module(name)
    bugs, start = chosen_bugs(names), time.monotonic()
    for target in {change.target for bug in bugs for change in bug.changes}:
        with contextlib.suppress(CannotPlantError):
            Place.of(target).owner()
    lost, took = [], []
    for task, reason, seconds in answers(tasks_of(bugs), jobs or os.cpu_count() or 1):
        print(f"{'NOT ' * bool(reason) + task.good:10s} {seconds:5.1f} s  {task.name}", flush=True)
        took.append((seconds, task.name))
        if reason:
            lost.append(f"{task.name}: {reason}")
    cpu = sum(seconds for seconds, _ in took)
    print(f"{len(bugs)} planted bugs, {len(lost)} lost, {time.monotonic() - start:.0f} s, {cpu:.0f} s of CPU time")
    for line in lost:
        print(f"  {line}")
    for seconds, name in sorted(took)[::-1][:slowest]:
        print(f"  {seconds:5.1f} s  {name}")
    print(f"{len(took) - len(lost)} passed, {len(lost)} failed")
    return 1 if lost else 0


def answers(tasks: list[Task], workers: int) -> Iterator[tuple[Task, str, float]]:
    """Give each task, its answer and CPU seconds; each in a process of its own, `workers` at a time."""
    context = get_context("fork")
    running: dict[Connection, tuple[Task, BaseProcess, float]] = {}
    todo = tasks[::-1]
    while todo or running:
        while todo and len(running) < workers:
            receiver, sender = context.Pipe(duplex=False)
            task = todo.pop()
            process = context.Process(target=_send, args=(sender, task))
            process.start()
            sender.close()
            running[receiver] = task, process, time.monotonic()
        ready = wait(list(running), timeout=1)
        for receiver, (task, process, begun) in list(running.items()):
            found = "its process died or hung", time.monotonic() - begun
            if receiver in ready:
                with contextlib.suppress(EOFError):
                    found = receiver.recv()
            elif found[1] < LIMIT:
                continue
            process.kill()
            process.join()
            del running[receiver]
            yield task, *found


def _send(sender: Connection, task: Task) -> None:
    answer = task.call(task.given)
    sender.send((answer, sum(os.times()[:4])))
    sender.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants.run", description="Plant bugs that a test or an audit must notice"
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="the beginning of names of bugs (default: all)")
    parser.add_argument("--slowest", metavar="N", type=int, default=0, help="also print the N slowest")
    parser.add_argument("--jobs", metavar="N", type=int, help="bugs at a time (default: one for each core)")
    given = parser.parse_args()
    sys.exit(main(given.names, given.slowest, given.jobs))
