"""The checks of `dpgraph check method`: those of the package's own methods that need no knowledge of the method.

They find mistakes, not proofs: a method from outside keeps "claimed" whatever it passes. Each runs the cells that the
method's specification names in `contract` on a graph of 60 nodes; the audits run its `attacks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from dpgraph.audits.cases import CPU, KINDS, kinds
from dpgraph.audits.registry import run_audit
from dpgraph.audits.scale import CLASSES, COMMON, toy_graph
from dpgraph.config.cell import Cell
from dpgraph.config.expansion import merged
from dpgraph.core import outside
from dpgraph.core.errors import UserError, invalid
from dpgraph.data.graph import Graph
from dpgraph.data.records import FIRST_PROBLEM, TEST, TRAIN
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method, outside_of, spec, specs
from dpgraph.planning.resolve import calibrate, resolve, target_of

NODES = 60
ELSEWHERE = ("tuples", "teachers", "sums", "lists")  # cases that these audits do not take
AUDITS = ("facts", "reach", "accounted", "self-terms")


def _graph() -> Graph:
    return toy_graph(NODES, 5, "outside")


def _logits(cell: Cell, graph: Graph) -> np.ndarray:
    """Return the logits of one run, after comparing what ran with what was accounted for."""
    calibration = calibrate(cell, int((graph.split == TRAIN).sum()))
    (job,) = make_jobs(graph, cell, [0], calibration, CPU)
    outcome = method(cell.method).run(job, lambda step, logits: {})
    if job.prepared is not None:
        job.prepared.check(outcome.resumed_at)  # raises NotAsAccounted
    return outcome.logits


def _statement(cells: list[Cell]) -> str | None:
    """Return why a cell does not meet its target epsilon; None if all do, and run as their mechanisms state."""
    for cell in cells:
        _logits(cell, _graph())
        target = target_of(cell)
        if target.target_epsilon is not None:
            reached = getattr(calibrate(cell, 40).statement, target.mode).epsilon
            if reached is None or not reached <= target.target_epsilon:
                return f"epsilon={reached} ({target.mode}): expected at most the target, {target.target_epsilon:g}"
    return None


def _blinding(cells: list[Cell]) -> str | None:
    """Return which labels leak: those that a private method gets, or test labels that change an output bit."""
    graph = _graph()
    other = replace(graph, labels=np.where(graph.split == TEST, (graph.labels + 1) % CLASSES, graph.labels))
    shown = [make_jobs(graph, cell, [0], calibrate(cell, 40), CPU)[0] for cell in cells]
    if not all((job.graph.labels == -1).all() for job in shown if job.cell.privacy is not None):
        return "a private method is shown labels"
    blind = all(np.array_equal(_logits(cell, graph), _logits(cell, other)) for cell in cells)
    return None if blind else "outputs change with test labels"


def _same_seed(cells: list[Cell]) -> str | None:
    """Return that the same seed predicts something else the second time; None if it does not."""
    same = all(np.array_equal(_logits(cell, _graph()), _logits(cell, _graph())) for cell in cells)
    return None if same else "two runs of one seed predict differently: expected random numbers from job.names alone"


def _attacked(audit: str) -> str | None:
    """Return what an audit found; None if it passed."""
    result = run_audit(audit)
    return None if result.passed else result.finding


def check_method(name: str, say: Callable[[str], None] = lambda line: None) -> tuple[Path, dict[str, bool]]:
    """Run every check of a user's method; return the file that the results read, and the outcome of each check.

    Args:
        name: A method from outside the package.
        say: Gets one line per check.

    Raises:
        UserError: For another method, or one without a cell to check.
    """
    folder, known = outside_of(name), spec(name)
    if folder is None:
        own = [one for one in specs() if outside_of(one) is not None]
        raise invalid("method", name, f"one from outside: {', '.join(own) or 'none is named in registry:'}")
    if FIRST_PROBLEM not in known.problems:
        raise invalid("method", name, f"one of {FIRST_PROBLEM}: the checks run on no other problem")
    cells = [resolve(merged(COMMON, {"method": name}, part), name) for part in known.contract.values()]
    if not cells:
        raise UserError(f"{folder / outside.SPEC}: {name}: contract: expected at least one cell")
    found: dict[str, bool] = {}

    def note(what: str, check: Callable[[], str | None]) -> None:
        try:
            problem = check()
        except UserError as error:
            problem = str(error)
        except Exception as error:  # whatever a stranger's code raises is an answer
            problem = str(outside.broken(folder, error))
        found[what] = problem is None
        say(f"{what}: passed" if problem is None else f"{what}: FAILED: {problem}")

    note("statement against mechanism", lambda: _statement(cells))
    note("blinding", lambda: _blinding(cells))
    note("same seed, same result", lambda: _same_seed(cells))
    if known.private:
        with only(name) as attacked:
            if not attacked:
                say("audits: none takes a case of this method")
            for audit in AUDITS if attacked else ():
                note(f"audit {audit}", partial(_attacked, audit))
    return outside.write_checks(folder, found), found


@contextmanager
def only(name: str) -> Iterator[int]:
    """Restrict the audits' cases to one method; give how many there are."""
    own = {case: kind for case, kind in kinds([spec(name)]).items() if kind.reads not in ELSEWHERE}
    with patch.dict(KINDS, own, clear=True):
        yield len(own)
