"""The problems by name, from `problems/<problem>/problem.py`; their code is imported when it is needed."""

import importlib
import importlib.util
import pkgutil
from functools import cache

import dpgraph.problems
from dpgraph.config.cell import Task
from dpgraph.core.errors import invalid
from dpgraph.data.records import FIRST_PROBLEM
from dpgraph.data.registry import entry, registry
from dpgraph.problems.base import Problem, Size


@cache
def problems() -> dict[str, Problem]:
    """Return all problems by name; a folder without `problem.py` is not one."""
    described = {}
    for module in pkgutil.iter_modules(dpgraph.problems.__path__, "dpgraph.problems."):
        if not module.ispkg or importlib.util.find_spec(f"{module.name}.problem") is None:
            continue
        one: Problem = importlib.import_module(f"{module.name}.problem").PROBLEM
        described[one.name] = one
    return dict(sorted(described.items()))


def problem(name: str) -> Problem:
    """Return a problem by name. Raise UserError for an unknown one."""
    known = problems()
    if name not in known:
        raise invalid("problem", name, f"one of {', '.join(known)}")
    return known[name]


def problem_of(task: Task) -> Problem:
    """Return the problem of the task's data set; node classification for one that the registry does not have."""
    known = registry().get(task.dataset)
    return problem(FIRST_PROBLEM if known is None else known.problem)


@cache
def size_of(task: Task) -> Size:
    """Return the public sizes of the task's data, from the registry."""
    return problem_of(task).size(task, entry(task.dataset))
