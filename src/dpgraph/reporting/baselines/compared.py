"""Which results of a plan are compared with the literature; the rules read it, so it imports nothing heavy."""

from __future__ import annotations

from dpgraph.config.cell import Task
from dpgraph.data.records import FIRST_PROBLEM
from dpgraph.families.registry import spec
from dpgraph.planning.plan import Entry, Plan
from dpgraph.planning.resolve import inference_of
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.registry import problem_of

RELATIONS = "relations"


def compared(plan: Plan) -> list[Entry]:
    """Places of methods without privacy that are trained on nodes' classes or on relations, each cell once.

    Not: values of a sweep and trials of a search, which are there to be worse, too.
    """
    by_cell = {
        (entry.paper, entry.method_id, entry.task_id, entry.cell.slug): entry
        for entry in plan.entries
        if entry.value is None and entry.not_run is None and _comparable(entry)
    }
    return list(by_cell.values())


def _comparable(entry: Entry) -> bool:
    cell, known = entry.cell, spec(entry.cell.method)
    if known.private or inference_of(cell) is PredictionInput.NOTHING:
        return False
    problem = problem_of(cell.task).name
    if problem == RELATIONS:
        return not known.look(cell).neutral
    return hasattr(cell, "model") and problem == FIRST_PROBLEM


def seeds_by_task(plan: Plan) -> dict[Task, tuple[int, ...]]:
    """Tasks that need computed references, with the seeds of all their results."""
    seeds: dict[Task, set[int]] = {}
    for entry in compared(plan):
        if problem_of(entry.cell.task).name != FIRST_PROBLEM:
            continue
        seeds.setdefault(entry.cell.task, set()).update(entry.cell.seeds)
    return {task: tuple(sorted(found)) for task, found in seeds.items()}
