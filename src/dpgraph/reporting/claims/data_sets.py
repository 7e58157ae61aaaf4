"""Data sets that a test reads: each alone, or for a statement that names none (`across: mean`) as their mean.

Only data sets of one setting with the same points (methods, values of a sweep, target epsilons) are averaged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from dpgraph.config.claim_tests import SimpleTest
from dpgraph.config.suite import SuiteTask
from dpgraph.reporting.claims.comparing import DataSet, Known, Knowns, Place

DEMONSTRATION = "in a demonstration, whose short trainings decide no claim"


@dataclass
class Coverage:
    """The data sets that a verdict is about."""

    shown: dict[str, SuiteTask] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)  # names of data sets that are not tested

    def add(self, tasks: Iterable[SuiteTask], left: Iterable[str]) -> None:
        self.shown |= {task.label: task for task in tasks}
        self.left |= dict.fromkeys(left)

    def text(self, demonstration: bool) -> str:
        """Return the data sets in words, those that are not tested last."""
        left = [name for name in self.left if name not in self.shown]
        parts = [DEMONSTRATION] * demonstration + [f"on {', '.join(self.shown)}"] * bool(self.shown)
        return "; ".join([*parts, *([f"not tested on {', '.join(left)}"] if left else [])])


def data_sets_of(
    test: SimpleTest, tasks: Mapping[str, SuiteTask], knowns: Mapping[str, Knowns]
) -> Iterator[DataSet]:  # fmt: skip
    """Yield single tasks, or means of tasks. `tasks` and `knowns` are by id of the task."""
    groups: dict[tuple, list[str]] = {}
    for task_id, task in tasks.items():
        alone = getattr(test, "across", "each") == "each"
        group = (task_id,) if alone else (task.task.get("setting"), *_points(test, knowns[task_id]))
        groups.setdefault(group, []).append(task_id)
    for members in groups.values():
        if len(members) == 1:
            yield DataSet(tasks[members[0]].label, knowns[members[0]], tuple(members))
            continue
        label = "mean of " + listed([tasks[task_id].label for task_id in members])
        places = {
            artefact: zip(*(_looked_at(test, knowns[task_id][artefact]) for task_id in members), strict=True)
            for artefact in knowns[members[0]]
        }
        means = {artefact: [_mean(label, same) for same in of_each] for artefact, of_each in places.items()}
        yield DataSet(label, means, tuple(members))


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["PubMed", "Cora-ML", "Coauthor-CS"])
    'PubMed, Cora-ML and Coauthor-CS'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _looked_at(test: SimpleTest, known: Known) -> Known:
    """Return the places at the target epsilons that the test names; all of them where it names none."""
    at = getattr(test, "at", None)
    return [place for place in known if not isinstance(at, tuple) or place[0].target_epsilon in (None, *at)]


def _points(test: SimpleTest, knowns: Knowns) -> list[tuple]:
    return [
        (artefact, entry.method_id, entry.value, entry.target_epsilon)
        for artefact, known in knowns.items()
        for entry, _ in _looked_at(test, known)
    ]


def _mean(label: str, members: Sequence[Place]) -> Place:
    """Return the mean as a place of one task: seed s of one with seed s of all others.

    Its cell, which tells terms of a sum apart, is the first task's.
    """
    entry, outcome = members[0]
    task = entry.suite_task.model_copy(update={"label": label})
    for member, result in members:
        if not result.ok:
            reason = f"{member.suite_task.label}, {result.reason}".rstrip(", ")
            outcome = replace(outcome, status=result.status, reason=reason)
    values = pd.concat([result.values for _, result in members], axis=1, join="inner").mean(axis=1)
    printed = {name: value for _, result in members for name, value in result.printed.items()}
    return replace(entry, suite_task=task), replace(outcome, values=values, printed=printed, members=tuple(members))
