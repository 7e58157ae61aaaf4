"""Data of every problem on which a method runs in a moment: the toy graph, and prepared demo data of the others."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dpgraph.data.fetch import fetch
from dpgraph.data.records import FIRST_PROBLEM
from dpgraph.problems.preprocess import preprocess
from dpgraph.problems.registry import problem_of


def value_of(cell, toy):
    """The toy graph for cells on nodes, for others their task's data."""
    return toy if problem_of(cell.task).name == FIRST_PROBLEM else prepared(cell.task)


@cache
def prepared(task, split=0):
    with TemporaryDirectory() as folder:
        raw, out = Path(folder, "raw"), Path(folder, "out")
        assert fetch(task.dataset, raw).status == "ok"
        preprocess(task, raw, out)
        return problem_of(task).working().load(out, verify=True, split=split)
