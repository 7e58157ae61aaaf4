"""The papers' claims, each tested on this suite's results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import Computed, NotTested, SimpleTest, uses
from dpgraph.config.suite import COMPUTE, SuiteTask
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_text
from dpgraph.planning.fairness import unequal
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.claims.comparing import DataSet, Known, PaperResults
from dpgraph.reporting.claims.contrasts import LEVEL
from dpgraph.reporting.claims.data_sets import Coverage, data_sets_of
from dpgraph.reporting.claims.page import claims_page
from dpgraph.reporting.claims.parts import (
    ABSENT,
    CONTRADICTED,
    DATA_MISSING,
    NOT_OWN,
    PartResult,
    over_readings,
    parts_as_text,
)
from dpgraph.reporting.claims.registry import computed_verdict, in_words, kind_of
from dpgraph.reporting.claims.verdicts import Comparisons, Verdict, decide, not_run
from dpgraph.reporting.paper_values import paper_datasets, printed_by_data_set
from dpgraph.reporting.results import Results, write_csv

COLUMNS = ("claim", "verdict", "reason", "substitutes", "size", "power", "n", "mechanism", "paper", "sentence",
           "statement", "source", "own_numbers", "would_reproduce", "would_contradict", "level", "effect",
           "effect_source", "data", "scope", "evidence", "comparisons", "parts", "suite")  # fmt: skip
NUMBERS = ("size", "power", "n", "level", "comparisons")


def write_claims(plan: Plan, results: pd.DataFrame | None, path_csv: Path, path_html: Path) -> list[Path]:
    """Write the verdicts as CSV and HTML."""
    table = claims_table(plan, results)
    write_csv(table, path_csv)
    write_text(path_html, claims_page(plan, table))
    return [path_csv, path_html]


def read_claims(path: Path) -> pd.DataFrame:
    """Return claims.csv as it was written; missing texts are empty. Raises UserError for a missing column."""
    if not Path(path).is_file():
        raise UserError(f"{path}: no such file; it is made by `dpgraph run claims`")
    table = pd.read_csv(path, dtype={column: str for column in COLUMNS if column not in NUMBERS})
    for column in COLUMNS:
        if column not in table.columns:
            raise UserError(f"{path}: column {column} is missing: delete it and run again")
    return table.fillna({column: "" for column in COLUMNS if column not in NUMBERS})


def claims_table(plan: Plan, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per claim of the plan's papers, decided by `verdicts.decide`.

    `n` is the smallest number of seeds in a comparison; `parts` has the numbers of each part, premise and reading.
    """
    known = Results.of(results)
    unlike = unequal(plan)
    rows = []
    for name, (paper, claim) in plan.claims().items():
        result = _over_readings(
            {reading: _unlike(unlike, paper, one) or _verdict(PaperResults(plan, paper, known), one)
             for reading, one in claim.read.items()}
        )  # fmt: skip
        claimed: dict[str, Any] = {
            column: getattr(claim, column) for column in ("sentence", "statement", "source", "own_numbers")
        }
        labels = {name: row.label for name, row in plan.experiments[paper].methods.items()}
        claimed |= dict(zip(("would_reproduce", "would_contradict"), in_words(claim, labels), strict=True))
        claimed |= {"level": LEVEL if claim.parts else math.nan}
        found = vars(result) | {"parts": parts_as_text(result.parts)}
        rows.append({"paper": paper, "claim": name, **claimed, **found, "suite": plan.suite.name})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _over_readings(by_reading: Mapping[str, Verdict]) -> Verdict:
    """Return one verdict from those of all readings; evidence and parts say which reading they are of."""
    verdict, reason = over_readings({name: (one.verdict, one.reason) for name, one in by_reading.items()})
    every = list(by_reading.values())
    if len(every) == 1:
        return every[0]
    first = next((one for one in every if one.comparisons), every[0])
    return replace(
        first,
        verdict=verdict,
        reason=reason,
        evidence=". ".join(f"READING {name}: {one.evidence}" for name, one in by_reading.items() if one.evidence),
        parts=tuple(replace(part, reading=name) for name, one in by_reading.items() for part in one.parts),
        substitutes="; ".join(f"{name}: {one.substitutes}" for name, one in by_reading.items() if one.substitutes),
        mechanism="; ".join(dict.fromkeys(one.mechanism for one in every if one.mechanism)),
        power=float(np.min([one.power for one in every])),  # not known where one is not
        n=min(one.n for one in every),
    )


def _unlike(unlike: Sequence[str], paper: str, claim: Claim) -> Verdict | None:
    """Return the verdict "not run" where compared cells differ in more than the claim varies."""
    used = {f"{paper}/{artefact}" for part in claim.parts for artefact, _ in uses(part)}
    lines = [line for line in unlike if line.partition(":")[0] in used]
    if not lines:
        return None
    more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
    return not_run(f"compared cells differ in more than the claim varies: {lines[0]}{more}")


def _verdict(suite: PaperResults, claim: Claim) -> Verdict:
    """Decide a paper's claim on its own data and mechanisms, and add what substitutes show."""
    if isinstance(claim.test, NotTested):
        return not_run(claim.test.why)
    if isinstance(claim.test, Computed):
        return computed_verdict(claim.test.function)
    if claim.sentence is None:
        return _decided_on(suite, claim, None)
    result = _decided_on(suite, claim, True)
    other = _decided_on(suite, claim, False)
    if not other.comparisons:
        return result
    seeds = [one.n for one in other.parts if one.n and not one.premise] or [other.n]
    told = f"{' to '.join(map(str, dict.fromkeys((min(seeds), max(seeds)))))} seed{'s' * (max(seeds) > 1)}"
    told += f", power {other.power:.2f}" if other.power >= 0 else ""
    return replace(result, substitutes=f"{other.verdict} {other.scope} ({told}): {other.reason}")


def _decided_on(suite: PaperResults, claim: Claim, own: bool | None) -> Verdict:
    """Decide on the paper's own (own=True), on substitutes alone (False), or on all (None: a claim of this project)."""
    scope, given = Coverage(), []
    parts: dict[str, Comparisons] = {}
    premises: dict[str, Comparisons] = {}
    for name, tests in claim.by_part.items():
        for test in tests:
            if isinstance(test, NotTested):
                given.append(PartResult(name, missing=test.why))
            elif isinstance(test, Computed):
                found = computed_verdict(test.function)
                given.append(replace(found.parts[0], part=name, reason=found.reason))
            else:
                _run(suite, test, parts.setdefault(name, Comparisons()), scope, own)
    if own is not False and not scope.shown and CONTRADICTED not in [one.verdict for one in given]:  # nothing to see
        reasons = [one.missing[0] for one in parts.values() if one.missing] + [one.missing for one in given]
        found = not_run(next(filter(None, reasons), "nothing to compare"))
        return replace(found, data=DATA_MISSING) if any(one.absent for one in parts.values()) else found
    shown = Coverage()
    for premise in claim.premises:
        _run(suite, premise, premises.setdefault(premise.part, Comparisons()), shown, own)
    without = [label for label in scope.shown if label not in shown.shown]
    if premises and without:  # data without a tested premise decide no claim
        next(iter(premises.values())).missing.append(f"not tested on {', '.join(without)}")
    return decide(parts, scope.text(suite.plan.suite.demonstration), claim.asserts, premises, given)


def _run(suite: PaperResults, test: SimpleTest, comparisons: Comparisons, scope: Coverage, own: bool | None) -> None:
    """Add the test's comparisons, or why they could not be made."""
    comparisons.missing += filter(None, [_compared(suite, test, comparisons, scope, own)])


def _compared(
    suite: PaperResults, test: SimpleTest, comparisons: Comparisons, scope: Coverage, own: bool | None
) -> str:
    """Add the test's comparisons; return why it could not be run at all, or an empty string."""
    plan, kind = suite.plan, kind_of(test)
    names = [test.artefact, *(name for name, _ in uses(test))]
    absent = [name for name in names if suite.full_name(name) not in plan.artefacts]
    if absent:
        wanted = test.tasks or ()
        comparisons.absent += [one for one in wanted if not any(t.is_called((one,)) for t in plan.suite.tasks.values())]
        return f"{absent[0]} {ABSENT}"
    if kind.named_places(test):
        return _between_tasks(suite, test, comparisons, scope, own)
    first = suite.full_name(test.artefact)
    every = {task_id: task for task_id, (task, _) in plan.tasks_of(first).items()}
    named = {
        task_id: task
        for task_id, task in every.items()
        if (not task.constructed if test.tasks is None or own is False else task.is_called(test.tasks))
    }
    if own is not None:
        named = {task_id: task for task_id, task in named.items() if is_own(suite, test, task_id) == own}
    if not named and test.tasks is not None:
        comparisons.absent += test.tasks
        return f"data set {', '.join(test.tasks)} is not in this suite" if own is None else NOT_OWN
    if not named:
        labels = ", ".join(task.label for task in every.values())
        comparisons.absent += (_paper_tasks(plan, first) or [labels]) if own else []
        return f"only data that were constructed are in this suite: {labels}" if own is None else NOT_OWN
    tasks = {task_id: task for task_id, task in named.items() if _has_all(suite, test, task_id)}
    if not tasks:
        methods = dict.fromkeys(method for _, methods in uses(test) for method in methods)
        return f"no data set of this suite has all of {', '.join(methods)}"
    # a task that the suite cannot run is no data of its claims; one without compute decides no claim
    can_run = [task_id for task_id in tasks if not _cannot_run(suite, test, task_id)]
    comparisons.absent += [task.label for task in tasks.values() if own and not can_run]
    tasks = {task_id: task for task_id, task in tasks.items() if task_id in can_run} or tasks
    knowns = {task_id: {name: _known(suite, name, task_id, test) for name in dict.fromkeys(names)} for task_id in tasks}
    # a suite may have a smaller grid on some data sets; the scope then lists them
    whole = [task_id for task_id in tasks if kind.has_points(test, DataSet("", knowns[task_id]))]
    tasks = {task_id: task for task_id, task in tasks.items() if task_id in whole} or tasks
    wanted = test.tasks or _paper_tasks(plan, first)
    left = [name for name in wanted if not any(task.is_called((name,)) for task in tasks.values())]
    if own and left:  # the sentence covers data sets that no test covers: not run
        comparisons.left |= dict.fromkeys(left)
        comparisons.absent += [one for one in left if not any(task.is_called((one,)) for task in every.values())]
        if getattr(test, "across", "each") == "mean":  # of fewer data sets it says nothing, not even against the claim
            return f"its mean is over {', '.join(left)}, too"
    scope.add(tasks.values(), left if own else [t.label for i, t in named.items() if i not in tasks])
    kind.run(test, suite, list(data_sets_of(test, tasks, knowns)), comparisons)
    return ""


def is_own(suite: PaperResults, test: SimpleTest, task_id: str) -> bool:
    """Return whether all that a test compares on a task is named as the paper's own."""
    own, entries = suite.plan.experiments[suite.paper].own, _entries(suite, test, task_id)
    return own is not None and bool(entries) and all(own.covers(entry.cell) for entry in entries)


def _entries(suite: PaperResults, test: SimpleTest, task_id: str) -> list[Entry]:
    """Return the entries of all that a test compares on a task."""
    used = {(suite.full_name(name), method) for name, methods in uses(test) for method in methods}
    entries = (entry for entry in suite.plan.entries if entry.task_id == task_id)
    return [entry for entry in entries if (entry.artefact, entry.method_id) in used]


def _between_tasks(
    suite: PaperResults, test: SimpleTest, comparisons: Comparisons, scope: Coverage, own: bool | None
) -> str:  # fmt: skip
    """Compare tasks that the test itself names, as if they were one data set. They must all be the paper's own."""
    named = kind_of(test).named_places(test)
    wanted = dict.fromkeys(name for _, name in named)
    by_name: dict[str, dict[str, Known]] = {name: {} for name in wanted}
    tasks: dict[str, SuiteTask] = {}
    for artefact, name in named:
        for task_id, (task, _) in suite.plan.tasks_of(suite.full_name(artefact)).items():
            if task.is_called([name]):
                by_name[name][artefact] = _known(suite, artefact, task_id, test)
                tasks[task_id] = task
    absent = [name for name in wanted if not by_name[name]]
    if absent:
        comparisons.absent += absent
        return f"data set {', '.join(absent)} is not in this suite"
    if own is not None and all(is_own(suite, test, task_id) for task_id in tasks) != own:
        comparisons.absent += wanted if own else []
        return NOT_OWN
    scope.add(tasks.values(), ())
    kind_of(test).run(test, suite, [DataSet("", {}, tuple(tasks), by_name)], comparisons)
    return ""


def _has_all(suite: PaperResults, test: SimpleTest, task_id: str) -> bool:
    """Return whether the suite has every method of the test on this task."""
    places = {(entry.artefact, entry.method_id) for entry in _entries(suite, test, task_id)}
    return all((suite.full_name(name), method) in places for name, methods in uses(test) for method in methods)


def _cannot_run(suite: PaperResults, test: SimpleTest, task_id: str) -> bool:
    """Return whether the suite leaves a place of the test on this task out for another reason than compute."""
    return any(entry.not_run not in (None, COMPUTE) for entry in _entries(suite, test, task_id))


def _known(suite: PaperResults, name: str, task_id: str, test: SimpleTest) -> Known:
    """Return the places of the test's methods in an artefact, on one task."""
    artefact = suite.full_name(name)
    methods = {method for used, named in uses(test) if used == name for method in named}
    metric, experiment = suite.plan.artefacts[artefact].metric, suite.plan.experiments[suite.paper]
    known = []
    for entry in suite.plan.entries_of(artefact):
        if entry.task_id == task_id and entry.method_id in methods:
            printed = printed_by_data_set(experiment, entry, metric)
            known.append((entry, replace(suite.results.outcome(entry, metric), printed=printed)))
    return known


def _paper_tasks(plan: Plan, artefact: str) -> tuple[str, ...]:
    paper, name = artefact.split("/")
    experiment = plan.experiments[paper]
    try:
        return tuple(paper_datasets(experiment, experiment.artefacts[name].tables(name)))
    except UserError:
        return ()
