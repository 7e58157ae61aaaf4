"""Plants each bug of the catalogue in a copy of the package and runs the test that must fail.

`python -m tests.mutants.run [NAME ...]`. A bug that survives, one whose patch no longer applies, and one that breaks
more than the test (a failed import proves nothing) make the command fail. Named tests first pass without a bug.
Processes are forked from one that has imported the libraries, so that a bug costs its test and little else.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# imported once, before forking: everything heavy but the package itself; torch imports the last three itself, with the
# first optimiser and the first layer on no device
HEAVY = ("numpy", "scipy.sparse", "scipy.stats", "scipy.special", "scipy.optimize", "torch", "pydantic", "pytest",
         "hypothesis", "pandas", "dp_accounting.pld.privacy_loss_distribution", "dp_accounting.rdp",
         "torch._dynamo", "torch._refs", "torch._meta_registrations")  # fmt: skip
SEEDED = ("--hypothesis-seed=0",)  # a bug that is noticed once is noticed always
LIMIT = 120  # seconds for one bug, before its process counts as hanging, which is no way to be noticed


def patched(mutant: Mutant, copy: Path) -> str | None:
    """Plants the bug in `copy`; why it cannot be planted, or None."""
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for edit in mutant.edits:
        path = copy / "dpgraph" / edit.file
        if not path.is_file():
            return f"{edit.file}: no such file"
        text = path.read_text(encoding="utf-8")
        if (count := text.count(edit.old)) != 1:
            return f"{edit.file}: {count} places to plant it: expected 1"
        path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return None


def run(tests: tuple[str, ...], source: Path) -> tuple[int, str]:
    """pytest's exit status and output over the package at `source`, in a process that has not imported it yet."""
    import pytest

    sys.path.insert(0, str(source))
    sys.dont_write_bytecode = True
    os.chdir(ROOT)
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        found = importlib.import_module("dpgraph")
        if not str(found.__file__).startswith(str(source)):
            return 3, f"imported {found.__file__}"
        status = pytest.main(
            ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "", *SEEDED, *tests]
        )
    return int(status), written.getvalue()


def judge(mutant: Mutant) -> tuple[str, str, float]:
    """(name, why the bug counts as not caught or "", seconds)."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        if (reason := patched(mutant, copy)) is not None:
            return mutant.name, f"does not apply: {reason}", 0.0
        status, output = run((mutant.test,), copy)
    seconds = time.monotonic() - start
    if status == 1 and re.search(r"\d+ failed", output):
        return mutant.name, "", seconds
    why = "SURVIVES" if status == 0 else f"breaks more than the test (pytest ended with {status})"
    return mutant.name, f"{why}: {mutant.test}: {output.strip().splitlines()[-1] if output.strip() else ''}", seconds


def chosen(names: list[str]) -> list[Mutant]:
    unknown = set(names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        raise SystemExit(f"error: mutant={sorted(unknown)[0]}: expected a name of tests/mutants/catalogue.py")
    return [mutant for mutant in MUTANTS if not names or mutant.name in names]


def main(names: list[str]) -> int:
    mutants = chosen(names)
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in HEAVY:
        importlib.import_module(name)
    if any(name == "dpgraph" or name.startswith("dpgraph.") for name in sys.modules):
        raise SystemExit("error: the package was imported before a bug could be planted")
    start = time.monotonic()
    workers = max(1, os.cpu_count() or 1)
    lost = [*_sound(mutants, workers), *_each(mutants, workers)]
    print(f"{len(mutants)} planted bugs, {len(lost)} not caught, {time.monotonic() - start:.0f} s")
    for line in lost:
        print(f"  {line}")
    print(f"{len(mutants) - len(lost)} passed, {len(lost)} failed")
    return 1 if lost else 0


def _sound(mutants: list[Mutant], workers: int) -> list[str]:
    """Named tests that fail without any bug."""
    tests = sorted({mutant.test for mutant in mutants})
    parts = [tuple(tests[index::workers]) for index in range(workers) if tests[index::workers]]
    lost = []
    for found in _forked([(run, (part, SOURCE)) for part in parts], workers, 10 * LIMIT):
        status, output = found or (9, "died or hung")
        if status:
            lost.append(f"a named test fails without a bug: {output.strip().splitlines()[-1]}")
    return lost


def _each(mutants: list[Mutant], workers: int) -> list[str]:
    lost = []

    def show(index: int, found: tuple[str, str, float] | None) -> None:
        name, reason, seconds = found or (mutants[index].name, "its process died or hung", float(LIMIT))
        print(f"{'caught' if not reason else 'NOT CAUGHT':10s} {seconds:5.1f} s  {name}", flush=True)
        if reason:
            lost.append(f"{name}: {reason}")

    _forked([(judge, (mutant,)) for mutant in mutants], workers, LIMIT, show)
    return lost


def _forked(
    calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]],
    workers: int,
    limit: float,
    show: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """Results of functions, each in a process of its own, `workers` at a time; None for one that died or hung.

    The package of one bug must not meet that of another, so no process does two.
    """
    context = get_context("fork")
    running: dict[int, tuple[BaseProcess, Connection, float]] = {}
    results: dict[int, Any] = {}
    todo = list(enumerate(calls))[::-1]
    while todo or running:
        while todo and len(running) < workers:
            index, (function, arguments) = todo.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(sender, function, arguments))
            process.start()
            sender.close()
            running[index] = process, receiver, time.monotonic()
        wait([receiver for _, receiver, _ in running.values()], timeout=1)
        for index, (process, receiver, begun) in list(running.items()):
            if receiver.poll():
                with contextlib.suppress(EOFError):
                    results[index] = receiver.recv()
            elif time.monotonic() - begun < limit:
                continue
            process.kill()
            process.join()
            del running[index]
            if show is not None:
                show(index, results.get(index))
    return [results.get(index) for index in range(len(calls))]


def _send(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    sender.send(function(*arguments))
    sender.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants.run", description="Plant bugs that a test must notice"
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="a bug of tests/mutants/catalogue.py (default: all)")
    sys.exit(main(parser.parse_args().names))
