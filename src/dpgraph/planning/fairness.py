"""The settings in which the cells of an artefact differ, so that a comparison is about what it names.

Two cells of one artefact on one data set may differ in what the experiment file gives their methods, in what the sweep
varies, in the target epsilon, and in what the artefact or the suite declares with a reason (`varies`). All else is
equal. So may two cells of the artefacts that one claim compares, which also differ in what either artefact varies.
Training length is compared in epochs, how often a record is seen, under the name `epochs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

from dpgraph.config.cell import Cell
from dpgraph.config.claim_tests import uses
from dpgraph.config.expansion import flat, merged
from dpgraph.config.experiment import Difference
from dpgraph.planning.plan import Entry, Plan
from dpgraph.planning.taken import chosen_setting
from dpgraph.problems.registry import size_of

EPOCHS, PRIVATE = "epochs", "private"
NOT_COMPARED = frozenset(
    {PRIVATE, "privacy.epsilon", "privacy.noise_multiplier", "training.steps", "training.evaluations"}
)
# read where there is message passing only
OF_NEIGHBOURS = frozenset(
    {"model.inference_own_weight", "privacy.max_degree", "privacy.list_cap", "training.max_degree"}
)
BATCHES = frozenset({"training.num_splits", "training.sampling_rate", "training.batch_size"})
# views that do not compare their cells, or compare them on purpose in all settings
OTHER_VIEWS = frozenset({"statistics", "accounting", "bounds", "search", "hyperparameters", "shares"})


def unequal(plan: Plan) -> list[str]:
    """Return a line for each setting in which cells of an artefact, or of a claim, differ without a declared reason."""
    within = [
        line
        for artefact, described in plan.artefacts.items()
        if described.view not in OTHER_VIEWS
        for line in _unequal(plan, [(artefact, plan.entries_of(artefact))])
    ]
    across = [line for parts in _several(plan) for line in _unequal(plan, parts)]
    return [*within, *dict.fromkeys(across)]


def _several(plan: Plan) -> Iterator[list[tuple[str, list[Entry]]]]:
    """Yield the artefacts of each test that compares several, with the entries of the test's methods."""
    for paper, claim in plan.claims().values():
        for test in getattr(claim, "parts", ()):
            methods_of: dict[str, set[str]] = {}
            for artefact, methods in uses(test):
                methods_of.setdefault(f"{paper}/{artefact}", set()).update(methods)
            known = {name: methods for name, methods in methods_of.items() if name in plan.artefacts}
            if len(known) > 1:
                yield [
                    (name, [entry for entry in plan.entries_of(name) if entry.method_id in methods])
                    for name, methods in known.items()
                ]


def settings_of(cell: Cell) -> dict[str, Any]:
    """Return settings by dotted path, with `epochs` for steps and `private` for whether there is a budget."""
    found = flat(cell.model_dump(mode="json", exclude={"task", "seeds", "method"}))
    records = found.get("pagerank.num_rows") or size_of(cell.task).train_nodes
    found |= {EPOCHS: _epochs(found, records), PRIVATE: cell.privacy is not None}
    if not found.get("model.hops"):
        found = {path: value for path, value in found.items() if path not in OF_NEIGHBOURS}
    return found


def _epochs(settings: Mapping[str, Any], records: int) -> float | str | None:
    """Return steps times the share of the records that a step reads."""
    steps = settings.get("training.steps")
    if not isinstance(steps, int):
        return steps if steps is None else str(steps)
    if settings.get("training.num_splits") is not None:
        return steps / settings["training.num_splits"]
    share = settings.get("training.sampling_rate")
    if share is None:
        batch = settings.get("training.batch_size")
        share = 1.0 if batch is None else min(1.0, batch / records)
    return float(f"{steps * share:.6g}")


def _chosen_by_search(plan: Plan, entry: Entry) -> Mapping[str, Any]:
    """Return what settings files chose for a place, by the rules that apply to it; a later rule wins."""
    experiment = plan.experiments[entry.paper]
    chosen: dict[str, Any] = {}
    for rule in plan.suite.papers[entry.paper].rules:
        if rule.settings is None or not rule.applies(entry.method_id, entry.task_id, entry.target_epsilon):
            continue
        task = plan.task(entry.task_id)
        part = chosen_setting(plan.settings, experiment, rule, entry.method_id, task, entry.artefact)
        chosen = merged(chosen, part)
    return chosen


def _is_as_chosen(plan: Plan, entry: Entry, path: str) -> bool:
    """Return whether the cell has what the search chose, or the default of a setting that was not searched."""
    chosen = flat(_chosen_by_search(plan, entry))
    part, _, name = path.partition(".")
    settings = getattr(entry.cell, part)
    expected = chosen[path] if path in chosen else type(settings).model_fields[name].default
    return bool(chosen) and getattr(settings, name) == expected


def _unequal(plan: Plan, parts: list[tuple[str, list[Entry]]]) -> Iterator[str]:
    """Yield lines of one artefact's entries, or between those of several; the first artefact's name begins them."""
    paper, first_name = parts[0][0].split("/")
    experiment, across = plan.experiments[paper], len(parts) > 1
    declared = [experiment.varies, plan.suite.papers[paper].varies]
    swept: set[str] = set()
    by_task: dict[str, list[Entry]] = {}
    for artefact, entries in parts:
        described = experiment.artefacts[artefact.split("/")[1]]
        declared.append(described.varies)
        swept |= set(described.sweep.settings) if described.sweep is not None else set()
        for entry in entries:
            by_task.setdefault(entry.task_id, []).append(entry)
    seen: set[tuple[str, ...]] = set()
    for entries in by_task.values():
        settings = {entry.cell.slug: settings_of(entry.cell) for entry in entries}
        for one, other in combinations(entries, 2):
            if one.artefact == other.artefact if across else not _compared(one, other):
                continue
            allowed = _of_methods(one, other, settings) | (swept if across or one.value != other.value else set())
            first, second = settings[one.cell.slug], settings[other.cell.slug]
            unlike = {path for path in first.keys() & second.keys() if first[path] != second[path]}
            for path in sorted(unlike - allowed - NOT_COMPARED):
                if any(
                    _applies(plan, difference, path, one, other, unlike)
                    for part in declared
                    for difference in _all(part.get(path, ()))
                ):
                    continue
                key = (path, one.method_id, other.method_id)
                if key not in seen:
                    seen.add(key)
                    where = f" ({other.artefact.split('/')[1]})" if across else ""
                    line = f"{_named(one)} and {_named(other)}{where}: {path}={first[path]} and {second[path]}"
                    yield f"{paper}/{first_name}: {line}"


def _all(declared: Difference | tuple[Difference, ...]) -> tuple[Difference, ...]:
    return (declared,) if isinstance(declared, Difference) else declared


def _compared(one: Entry, other: Entry) -> bool:
    """Return whether two entries are compared: at one epsilon, if both have a target, and by method or by value."""
    if one.target_epsilon != other.target_epsilon and None not in (one.target_epsilon, other.target_epsilon):
        return False
    return one.method_id == other.method_id or one.value == other.value or None in (one.value, other.value)


def _applies(plan: Plan, difference: Difference, path: str, one: Entry, other: Entry, unlike: set[str]) -> bool:
    names = (one.method_id, other.method_id)
    if not any(fnmatchcase(name, pattern) for name in names for pattern in difference.methods):
        return False
    if difference.searched and not all(_is_as_chosen(plan, entry, path) for entry in (one, other)):
        return False
    if not difference.between:
        return one.method_id != other.method_id
    return any(path in unlike for path in difference.between)


def _of_methods(one: Entry, other: Entry, settings: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return what the experiment file sets for one of two methods; `BATCHES` are set together.

    A rule of the suite that gives the method another value is no part of it.
    """
    if one.method_id == other.method_id:
        return set()
    given = [(settings[entry.cell.slug], *item) for entry in (one, other) for item in flat(entry.method.set).items()]
    paths = {path for _, path, _ in given} - {path for has, path, value in given if has.get(path, value) != value}
    if "training.steps" in paths:
        paths.add(EPOCHS)
    return paths | BATCHES if paths & BATCHES else paths


def _named(entry: Entry) -> str:
    value = "" if entry.value is None else f" ({entry.value})"
    return f"{entry.method_id}{value} on {entry.task_id}"
