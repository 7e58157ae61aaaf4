"""The papers' claims, each tested on this suite's results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.errors import UserError
from dpgraph.experiments import claim as kinds
from dpgraph.experiments.claim import Claim, SimpleTest, uses
from dpgraph.experiments.suite import COMPUTE, SuiteTask
from dpgraph.files import write_text
from dpgraph.planning.fairness import unequal
from dpgraph.planning.plan import WORKFLOW, Plan
from dpgraph.reporting.claims import computed
from dpgraph.reporting.claims.averaging import DataSet, Knowns, data_sets_of
from dpgraph.reporting.claims.classes import compare_classes
from dpgraph.reporting.claims.comparing import Known
from dpgraph.reporting.claims.contrasts import LEVEL
from dpgraph.reporting.claims.control import against_control
from dpgraph.reporting.claims.coverage import Coverage
from dpgraph.reporting.claims.curves import can_be_drawn, compare_along
from dpgraph.reporting.claims.elsewhere import cost_elsewhere
from dpgraph.reporting.claims.inversions import compare_at_equal_accuracy, compare_every_class
from dpgraph.reporting.claims.kinds import compare, has_terms, weighted_sum
from dpgraph.reporting.claims.page import claims_page
from dpgraph.reporting.claims.verdicts import NOT_RUN, Comparisons, Verdict, decide, not_run
from dpgraph.reporting.claims.words import would_contradict, would_reproduce
from dpgraph.reporting.paper_values import paper_datasets, printed_by_data_set
from dpgraph.reporting.results import Results, class_counts, write_csv
from dpgraph.reporting.views.class_wise.rows import class_values

COLUMNS = ("claim", "verdict", "reason", "size", "power", "n", "mechanism", "paper", "statement", "source",
           "own_numbers", "would_reproduce", "would_contradict", "level", "effect", "effect_source", "data", "control",
           "scope", "evidence", "comparisons", "suite")  # fmt: skip


def write_claims(
    plan: Plan, results: pd.DataFrame | None, path_csv: Path, path_html: Path, workflow: Path = WORKFLOW
) -> list[Path]:
    """Write the verdicts as CSV and HTML.

    workflow: the folder of suites, whose suite paper says what a claim that is not run here would cost.
    """
    table = claims_table(plan, results)
    absent = table.loc[(table["verdict"] == NOT_RUN) & table["level"].notna(), "claim"]
    for name, where in cost_elsewhere(plan, absent, workflow).items():
        table.loc[table["claim"] == name, "reason"] += f"; {where}"
    write_csv(table, path_csv)
    write_text(path_html, claims_page(plan, table))
    return [path_csv, path_html]


def read_claims(path: Path) -> pd.DataFrame:
    """claims.csv as it was written; a missing column is named."""
    if not Path(path).is_file():
        raise UserError(f"{path}: no such file; it is made by `dpgraph run claims`")
    table = pd.read_csv(path)
    for column in COLUMNS:
        if column not in table.columns:
            raise UserError(f"{path}: column {column} is missing: delete it and run again")
    return table


def claims_table(plan: Plan, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per claim of the plan's papers, decided by `verdicts.decide`.

    `n` is the smallest number of seeds in a comparison.
    """
    known = None if results is None else Results(results)
    unlike = unequal(plan)
    rows = []
    for name, (paper, claim) in plan.claims().items():
        result = _unlike(unlike, paper, claim) or _verdict(plan, paper, claim, known)
        claimed: dict[str, Any] = {column: getattr(claim, column) for column in ("statement", "source", "own_numbers")}
        claimed |= {"would_reproduce": would_reproduce(claim), "would_contradict": would_contradict(claim)}
        claimed |= {"level": LEVEL if claim.parts else math.nan}
        rows.append({"paper": paper, "claim": name, **claimed, **vars(result), "suite": plan.suite.name})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _unlike(unlike: Sequence[str], paper: str, claim: Claim) -> Verdict | None:
    """Not run where an artefact of the claim compares cells that differ in more than they should."""
    used = {f"{paper}/{artefact}" for part in claim.parts for artefact, _ in uses(part)}
    lines = [line for line in unlike if line.partition(":")[0] in used]
    if not lines:
        return None
    more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
    return not_run(f"compared cells differ in more than the claim varies: {lines[0]}{more}")


def _verdict(plan: Plan, paper: str, claim: Claim, results: Results | None) -> Verdict:
    if isinstance(claim.test, kinds.NotTested):
        return not_run(claim.test.why)
    if isinstance(claim.test, kinds.Computed):
        return computed.FUNCTIONS[claim.test.function]()
    comparisons, scope = Comparisons(), Coverage()
    for part in claim.parts:
        reason = _run(plan, paper, part, results, comparisons, scope)
        if reason:
            comparisons.missing.append(reason)
    if not scope.shown:  # no part could even be looked up
        return not_run(comparisons.missing[0])
    result = decide(comparisons, scope.text(plan.suite.demonstration), claim.asserts)
    if claim.control is None or results is None:
        return result
    return replace(result, control=against_control(plan, claim.control, comparisons.private.values(), results))


def _run(
    plan: Plan,
    paper: str,
    test: SimpleTest,
    results: Results | None,
    comparisons: Comparisons,
    scope: Coverage,
) -> str:
    """Adds the test's comparisons; returns why it could not be run at all, or an empty string."""
    artefacts = [f"{paper}/{name}" for name, _ in uses(test)]
    absent = [name for name in (f"{paper}/{test.artefact}", *artefacts) if name not in plan.artefacts]
    if absent:
        wanted = test.tasks or ()
        comparisons.absent += [one for one in wanted if not any(t.is_called((one,)) for t in plan.suite.tasks.values())]
        return f"{absent[0].split('/')[1]} is not in this suite"
    if results is None:
        return "no results yet"
    if isinstance(test, kinds.WeightedSum) and test.terms[0].task is not None:
        return _between_tasks(plan, paper, test, results, comparisons, scope)
    first, second = f"{paper}/{test.artefact}", artefacts[-1]
    every = {task_id: task for task_id, (task, _) in plan.tasks_of(first).items()}
    named = {
        task_id: task
        for task_id, task in every.items()
        if (not task.constructed if test.tasks is None else task.is_called(test.tasks))
    }
    if not named and test.tasks is not None:
        comparisons.absent += test.tasks
        return f"data set {', '.join(test.tasks)} is not in this suite"
    if not named:
        return f"only data that were constructed are in this suite: {', '.join(task.label for task in every.values())}"
    tasks = {task_id: task for task_id, task in named.items() if _has_all(plan, paper, test, task_id)}
    if not tasks:
        names = dict.fromkeys(method for _, methods in uses(test) for method in methods)
        return f"no data set of this suite has all of {', '.join(names)}"
    # what the suite shows and cannot run is no data of its claims, either; what it has no time for decides nothing
    can_run = [task_id for task_id in tasks if not _cannot_run(plan, paper, test, task_id)]
    tasks = {task_id: task for task_id, task in tasks.items() if task_id in can_run} or tasks
    knowns = {
        task_id: {name: _known(plan, name, task_id, test, results) for name in dict.fromkeys([first, *artefacts])}
        for task_id in tasks
    }
    # a suite may have a smaller grid on some data sets; the scope then lists them
    whole = [task_id for task_id in tasks if _has_points(paper, test, first, knowns[task_id])]
    tasks = {task_id: task for task_id, task in tasks.items() if task_id in whole} or tasks
    scope.add(
        tasks.values(), test.tasks or _paper_tasks(plan, first), (every if test.tasks is None else named).values()
    )
    if isinstance(test, kinds.RarerClasses):
        by_class = class_values(plan, first, results, class_counts(plan, first, results.frame))
        by_task = [
            (task.label, [values for values in by_class if values.entry.task_id == task_id])
            for task_id, task in tasks.items()
        ]
        compare_classes(test, by_task, comparisons)
        return ""
    for data_set in data_sets_of(test, tasks, knowns):
        if isinstance(test, kinds.RiseAndFall):
            compare_along(data_set.label, data_set.knowns[first], plan.artefacts[first].metric, results, comparisons)
        elif isinstance(test, kinds.EveryClass):
            paper_of = plan.experiments[paper]
            compare_every_class(test, data_set.label, data_set.knowns[first], paper_of, results, comparisons)
        elif isinstance(test, kinds.AtEqualAccuracy):
            compare_at_equal_accuracy(test, data_set.label, data_set.knowns[first], results, comparisons)
        else:
            comparisons.add(compared_on(paper, test, data_set, (first, second)))
    return ""


def compared_on(paper: str, test: SimpleTest, data_set: DataSet, artefacts: tuple[str, str]) -> Comparisons:
    """On a mean of which the test is about each member: with the same comparisons of every member."""
    comparisons, (first, second), known = Comparisons(), artefacts, data_set.knowns
    if isinstance(test, kinds.WeightedSum):
        weighted_sum(test, data_set.label, _lookup(paper, test, known), comparisons)
    else:
        compare(test, data_set.label, known[first], known[second], comparisons)
    alone = [compared_on(paper, test, one, artefacts).made for one in data_set.each]
    if comparisons.made and alone:
        by_data_set = zip(comparisons.made, *alone, strict=True)
        comparisons.made = [replace(one, singles=tuple(of_each)) for one, *of_each in by_data_set]
    return comparisons


def _has_points(paper: str, test: SimpleTest, artefact: str, known: Knowns) -> bool:
    """Whether a data set has the target epsilons and the values of a sweep that the test names."""
    if isinstance(test, kinds.Curve):
        return can_be_drawn(test, known[artefact])
    if isinstance(test, kinds.WeightedSum):
        return has_terms(test, _lookup(paper, test, known))
    at = getattr(test, "at", None)
    return not isinstance(at, tuple) or set(at) <= {entry.epsilon for entry, _ in known[artefact]}


def _lookup(paper: str, test: kinds.WeightedSum, places: Mapping[str, Known]) -> Callable[[kinds.WeightedMean], Known]:
    return lambda term: places[f"{paper}/{term.artefact or test.artefact}"]


def _between_tasks(
    plan: Plan, paper: str, test: kinds.WeightedSum, results: Results, comparisons: Comparisons, scope: Coverage
) -> str:  # fmt: skip
    """A weighted sum whose terms name their tasks: one comparison."""
    places: dict[tuple[str, str], Known] = {}
    tasks: dict[str, SuiteTask] = {}
    for term in test.terms:
        name = f"{paper}/{term.artefact or test.artefact}"
        for task_id, (task, _) in plan.tasks_of(name).items():
            if task.is_called([str(term.task)]):
                places[name, str(term.task)] = _known(plan, name, task_id, test, results)
                tasks[task_id] = task
    wanted = dict.fromkeys(str(term.task) for term in test.terms)
    absent = [name for name in wanted if name not in {task for _, task in places}]
    if absent:
        comparisons.absent += absent
        return f"data set {', '.join(absent)} is not in this suite"
    scope.add(tasks.values(), wanted, tasks.values())
    weighted_sum(
        test, "", lambda term: places[f"{paper}/{term.artefact or test.artefact}", str(term.task)], comparisons
    )
    return ""


def _has_all(plan: Plan, paper: str, test: SimpleTest, task_id: str) -> bool:
    """Whether the suite has every method of the test on this task."""
    places = {(entry.artefact, entry.method_id) for entry in plan.entries if entry.task_id == task_id}
    return all((f"{paper}/{name}", method) in places for name, methods in uses(test) for method in methods)


def _cannot_run(plan: Plan, paper: str, test: SimpleTest, task_id: str) -> bool:
    """Whether the suite leaves a place of the test on this task out for another reason than compute."""
    methods_of = {f"{paper}/{name}": methods for name, methods in uses(test)}
    return any(
        entry.not_run not in (None, COMPUTE) and entry.method_id in methods_of.get(entry.artefact, ())
        for entry in plan.entries
        if entry.task_id == task_id
    )


def _known(plan: Plan, artefact: str, task_id: str, test: SimpleTest, results: Results) -> Known:
    """What the artefact has of the test's methods on the task."""
    name = artefact.split("/")[1]
    methods = {method for used, named in uses(test) if used == name for method in named}
    metric = plan.artefacts[artefact].metric
    experiment = plan.experiments[artefact.split("/")[0]]
    known = []
    for entry in plan.entries_of(artefact):
        if entry.task_id == task_id and entry.method_id in methods:
            printed = printed_by_data_set(experiment, entry, metric)
            known.append((entry, replace(results.outcome(entry, metric), printed=printed)))
    return known


def _paper_tasks(plan: Plan, artefact: str) -> tuple[str, ...]:
    paper, name = artefact.split("/")
    experiment = plan.experiments[paper]
    try:
        return tuple(paper_datasets(experiment, experiment.artefacts[name].tables(name)))
    except UserError:
        return ()
