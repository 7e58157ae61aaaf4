"""The plan: a suite crossed with experiment files gives the cells to run and where each is in which artefact."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from dpgraph.config.cell import Cell, Task
from dpgraph.config.config import Config, load, parse
from dpgraph.config.expansion import merged
from dpgraph.config.experiment import Artefact, Experiment, MethodRow
from dpgraph.config.paths import Paths
from dpgraph.config.settings import ChosenSettings, read_settings
from dpgraph.config.streams import trial_seeds
from dpgraph.config.suite import Grid, Rule, Suite, SuiteTask, read_suite
from dpgraph.core.errors import invalid
from dpgraph.engine.methods.spec import MethodSpec
from dpgraph.families.registry import spec_in, specs
from dpgraph.planning.fallback import with_fallbacks
from dpgraph.planning.resolve import resolve
from dpgraph.planning.run import Run, RunPaths
from dpgraph.planning.taken import chosen_setting, published_part, trials
from dpgraph.problems.registry import size_of

WORKFLOW = Path("workflow")


class EntryPlace(NamedTuple):
    """A method on a task in an artefact, with the label and the settings of a sweep's value or a search's trial."""

    artefact: str  # "daigavane/table1"
    method_id: str
    task_id: str
    value: str | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One place of one artefact: a method on a task, at a target epsilon (None: no target), and the cell behind it.

    `value` is the label of a sweep's value or of a search's trial, `settings` what it sets; None and empty elsewhere.
    `not_run` says why this place is not run in the suite; None where it is.
    """

    artefact: str
    method_id: str
    method: MethodRow
    task_id: str
    suite_task: SuiteTask
    target_epsilon: float | None
    cell: Cell
    value: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    not_run: str | None = None

    @property
    def paper(self) -> str:
        return self.artefact.split("/")[0]


@dataclass(frozen=True)
class Plan:
    config: Config
    suite: Suite
    experiments: dict[str, Experiment]
    entries: tuple[Entry, ...]
    settings: Mapping[str, ChosenSettings] = field(default_factory=dict)  # by name, those that the suite's rules read
    workflow: Path = WORKFLOW  # the folder of its files
    methods: Mapping[str, MethodSpec] = field(default_factory=specs)  # all that there are

    @cached_property
    def paths(self) -> Paths:
        """Return the files of the suite."""
        return Paths(self.config)

    @cached_property
    def by_public_rule(self) -> frozenset[str]:
        """Slugs of private cells for which a public rule made settings from the registry's numbers."""
        return frozenset(
            entry.cell.slug
            for entry in self.entries
            if entry.target_epsilon is not None
            and any(
                rule.public_rule is not None and rule.applies(entry.method_id, entry.task_id, entry.target_epsilon)
                for rule in self.suite.papers[entry.paper].rules
            )
        )

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The cells to train: by slug, each once, in the order of first use, with the seeds of all entries."""
        by_slug: dict[str, Cell] = {}
        for entry in self.entries:
            if self.artefacts[entry.artefact].view == "accounting" or entry.not_run is not None:
                continue
            known = by_slug.setdefault(entry.cell.slug, entry.cell)
            if not set(entry.cell.seeds) <= set(known.seeds):
                seeds = tuple(sorted({*known.seeds, *entry.cell.seeds}))
                by_slug[entry.cell.slug] = known.model_copy(update={"seeds": seeds})
        return by_slug

    @cached_property
    def runs(self) -> dict[str, Run]:
        """The cells to train, resolved, by slug."""
        return {slug: self.run_of(cell) for slug, cell in self.cells.items()}

    def run_of(self, cell: Cell) -> Run:
        """Resolve a cell of this plan."""
        return Run.resolve(cell, RunPaths.in_suite(self.paths, cell), spec_in(self.methods, cell.method))

    @cached_property
    def left_out(self) -> dict[str, Entry]:
        """The first places of cells that tables show and the suite does not run, by slug."""
        by_slug: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.not_run is not None and entry.cell.slug not in self.cells:
                by_slug.setdefault(entry.cell.slug, entry)
        return by_slug

    @cached_property
    def calibrations(self) -> dict[str, Cell]:
        """A cell for each calibration by its key, those that are accounted for and not trained among them."""
        by_key: dict[str, Cell] = {}
        keys: dict[str, str | None] = {}  # artefacts share cells, and a key is a hash
        for cell in (entry.cell for entry in self.entries if entry.not_run is None):
            if cell.slug not in keys:
                keys[cell.slug] = cell.calibration_key
            key = keys[cell.slug]
            if key is not None:
                by_key[key] = cell
        return by_key

    @cached_property
    def artefacts(self) -> dict[str, Artefact]:
        """The suite's artefacts by id ("daigavane/table1")."""
        return {
            f"{paper}/{name}": self.experiments[paper].artefacts[name].named(name)
            for paper, part in self.suite.papers.items()
            if paper in self.experiments
            for name in part.artefacts
            if self.config.artefacts is None or f"{paper}/{name}" in self.config.artefacts
        }

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return {
            name: parse(Task, item.task, f"suite {self.suite.name}: tasks.{name}.task")
            for name, item in self.suite.tasks.items()
        }

    def task(self, task_id: str) -> Task:
        return self._tasks[task_id]

    def tasks_of(self, artefact: str) -> dict[str, tuple[SuiteTask, Task]]:
        paper, name = artefact.split("/")
        names = dict.fromkeys(task for grid in self.suite.papers[paper].artefacts[name] for task in grid.tasks)
        return {task: (self.suite.tasks[task], self.task(task)) for task in names}

    def entries_of(self, artefact: str) -> list[Entry]:
        return self._entries_by_artefact.get(artefact, [])

    @cached_property
    def _entries_by_artefact(self) -> dict[str, list[Entry]]:
        by_artefact: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_artefact.setdefault(entry.artefact, []).append(entry)
        return by_artefact

    def reference_entry(self, entry: Entry) -> Entry | None:
        """Return the run whose errors are the hard cases of an entry; None where the suite lacks it."""
        described = self.artefacts[entry.artefact]
        method = described.reference_of(entry.method_id)
        same = (method, entry.task_id, described.reference_value)
        places = (other for other in self.entries_of(entry.artefact) if other.cell.privacy is None)
        return next((other for other in places if (other.method_id, other.task_id, other.value) == same), None)

    def claims(self) -> dict[str, tuple[str, Any]]:
        """Return (paper, Claim) by claim id, for the papers of this plan. Raises UserError for an id of two papers."""
        claims: dict[str, tuple[str, Any]] = {}
        for paper, experiment in self.experiments.items():
            for name, claim in experiment.claims.items():
                if name in claims:
                    raise invalid(f"experiments/{paper}.yaml: claims", name, f"an id that {claims[name][0]} has not")
                claims[name] = (paper, claim)
        return claims


def load_plan(config: Config, workflow: Path = WORKFLOW) -> Plan:
    suite = with_fallbacks(read_suite(config, workflow), config)
    for paper in config.papers or ():
        if paper not in suite.papers:
            raise invalid("papers", paper, f"one of {', '.join(suite.papers)} (suite {suite.name})")
    chosen = [paper for paper in suite.papers if config.papers is None or paper in config.papers]
    experiments = {paper: load(Experiment, workflow / "experiments" / f"{paper}.yaml") for paper in chosen}
    named = {rule.settings for paper in chosen for rule in suite.papers[paper].rules if rule.settings is not None}
    settings = {name: read_settings(workflow, name) for name in sorted(named)}
    draft = Plan(config, suite, experiments, (), settings, workflow)
    for paper, experiment in experiments.items():
        for name in suite.papers[paper].artefacts:
            if name not in experiment.artefacts:
                raise invalid(f"papers.{paper}.artefacts", name, f"one of {', '.join(experiment.artefacts)}")
    for artefact in config.artefacts or ():
        if artefact not in draft.artefacts:
            raise invalid("artefacts", artefact, f"one of {', '.join(draft.artefacts)} (suite {suite.name})")
    resolved: dict[str, Cell] = {}
    entries = [entry for artefact in draft.artefacts for entry in _entries(draft, artefact, resolved)]
    plan = replace(draft, entries=tuple(entries))
    _check(plan)
    plan.claims()
    return plan


def _check(plan: Plan) -> None:
    """Raise UserError for hard cases without their reference, and for shared splits outside of view variance.

    Other views take seeds as independent.
    """
    for entry in plan.entries:
        described, (paper, name) = plan.artefacts[entry.artefact], entry.artefact.split("/")
        where = f"papers.{paper}.artefacts.{name}"
        if described.view == "hard-cases" and plan.reference_entry(entry) is None:
            at = "" if described.reference_value is None else f" at {described.reference_value}"
            wanted = f"{described.reference_of(entry.method_id)}{at} on {entry.task_id}, without privacy, among them"
            raise invalid(where, entry.method_id, f"its reference {wanted}")
        per_split, count = entry.cell.seeds_per_split, len(entry.cell.seeds)
        if (described.view == "variance") != (per_split is not None):
            expected = "a number with the view variance, and none with any other"
            raise invalid(f"{where}: seeds_per_split", per_split, expected)
        if per_split is not None and (count < 2 * per_split or count % per_split):
            raise invalid(
                f"papers.{paper}: seeds", count, f"a multiple of seeds_per_split={per_split}, at least twice as many"
            )


def _entries(plan: Plan, artefact: str, known: dict[str, Cell]) -> list[Entry]:
    """Return the union of the artefact's grids, ordered by its methods, then by epsilon, task and value.

    `known` holds the cells that have been resolved, by their settings as they were written: artefacts share cells.
    """
    paper, name = artefact.split("/")
    described = plan.experiments[paper].artefacts[name]
    methods = described.methods
    places: dict[tuple[int, float, str, str | None], Entry] = {}
    tried = trials(artefact, described.search) if described.search is not None else None
    # the theorem that accounts for a selection is about independent runs: trials then get seeds of their own
    independent = described.search is not None and described.search.distribution != "fixed"
    for grid in plan.suite.papers[paper].artefacts[name]:
        for pattern in grid.methods:
            if methods and not any(fnmatchcase(method, pattern) for method in methods):
                raise invalid(f"papers.{paper}.artefacts.{name}.methods", pattern, f"one of {', '.join(methods)}")
        if bool(grid.values) != (described.sweep is not None):
            expected = "one or more, since the artefact is a sweep" if described.sweep else "none, it is no sweep"
            raise invalid(f"papers.{paper}.artefacts.{name}.values", list(grid.values), expected)
        values: list[tuple[str | None, Mapping[str, Any]]] = [(None, {})]
        if described.sweep is not None or tried is not None:
            values = list((grid.values if tried is None else tried).items())
        for index, method in enumerate(methods):
            if not any(fnmatchcase(method, pattern) for pattern in grid.methods):
                continue
            for task in grid.tasks:
                for position, (value, settings) in enumerate(values):
                    stream = position if independent else 0
                    place = EntryPlace(artefact, method, task, value, settings)
                    for entry in _crossed(plan, place, grid, stream, known):
                        places.setdefault((index, entry.target_epsilon or 0.0, task, value), entry)
    if described.sweep is not None:
        _check_sweep(artefact, places.values())
    order = {task: position for position, task in enumerate(plan.tasks_of(artefact))}
    # sorted() is stable: values keep the order in which the suite names them
    return [places[place] for place in sorted(places, key=lambda place: (place[0], place[1], order[place[2]]))]


def _check_sweep(artefact: str, entries: Iterable[Entry]) -> None:
    """Raise UserError for two values of a sweep that give one cell: one of them would show a wrong number."""
    paper, name = artefact.split("/")
    seen: dict[tuple[str, str, float | None, str], str | None] = {}
    for entry in entries:
        known = seen.setdefault(
            (entry.method_id, entry.task_id, entry.target_epsilon, entry.cell.identity), entry.value
        )
        if known != entry.value:
            where = f"papers.{paper}.artefacts.{name}.values"
            raise invalid(where, entry.value, f"another cell than {known} gives for {entry.method_id}")


def _crossed(plan: Plan, place: EntryPlace, grid: Grid, stream: int, known: dict[str, Cell]) -> list[Entry]:
    """Return an entry per target epsilon of a private method (one where it has none), one of a public method."""
    artefact, method_id, task_id, value, settings = place
    paper = artefact.split("/")[0]
    row, suite_task = plan.experiments[paper].methods[method_id], plan.suite.tasks[task_id]
    where = f"suite {plan.suite.name}: {artefact}, {method_id} on {task_id}"
    private = "privacy" in row.set
    count = plan.config.seeds or grid.seeds or plan.suite.papers[paper].seeds or plan.suite.seeds
    seeds = trial_seeds(stream, count)
    shared = {"task": plan.task(task_id).model_dump(), "method": row.method, "seeds": seeds}
    entries: list[Entry] = []
    rules = plan.suite.papers[paper].rules
    ruled = any(rule.public_rule is not None or rule.epsilons for rule in rules)  # settings may differ by epsilon
    base: dict[str, Any] = {}
    for epsilon in grid.epsilons if private and grid.epsilons else (None,):
        if ruled or not entries:
            base = merged(*(part for _, part in layers(plan, place, epsilon)), shared)
        if not private:
            base.pop("privacy", None)
        complete = base if epsilon is None else merged(base, {"privacy": {"epsilon": epsilon}})
        written = json.dumps(complete, default=repr)
        cell = known[written] if written in known else known.setdefault(written, resolve(complete, where, plan.methods))
        target = cell.privacy.epsilon if cell.privacy is not None else None
        entries.append(
            Entry(artefact, method_id, row, task_id, suite_task, target, cell, value, settings, grid.not_run)
        )
    return entries


def layers(plan: Plan, place: EntryPlace, epsilon: float | None) -> list[tuple[Callable[[], str], Mapping[str, Any]]]:
    """Return where the settings of a place come from, and these; a later layer wins.

    Task, seeds and the target epsilon are not among them.

    `epsilon` is that target, which public rules read.

    Origins are functions that write themselves out when they are called: a plan of thousands of cells calls none.
    """
    artefact, method_id, task_id, value, settings = place
    paper, name = artefact.split("/")
    experiment, suite = plan.experiments[paper], f"suites/{plan.suite.name}.yaml"
    row, file = experiment.methods[method_id], f"experiments/{paper}.yaml"
    where = f"suite {plan.suite.name}: {artefact}, {method_id} on {task_id}"
    sources: list[tuple[Callable[[], str], Mapping[str, Any]]] = [(lambda: f"{file}: defaults", experiment.defaults)]
    for index, rule in enumerate(plan.suite.papers[paper].rules):
        if not rule.applies(method_id, task_id, epsilon):
            continue
        origin = partial(_rule_place, plan, paper, index, rule)
        if (table := rule.hyperparameter_table) is not None:
            printed = published_part(experiment, row, table, plan.suite.tasks[task_id], where)
            sources.append((partial(origin, f": hyperparameter_table {table}"), printed))
        if rule.settings is not None:
            chosen = chosen_setting(plan.settings, experiment, rule, method_id, plan.task(task_id), where)
            sources.append((partial(origin, f": settings {rule.settings}"), chosen))
        if rule.public_rule is not None:
            by_rule = spec_in(plan.methods, row.method).by_rule(rule.public_rule, size_of(plan.task(task_id)), epsilon)
            sources.append((partial(origin, f": public rule {rule.public_rule}"), by_rule))
        sources.append((origin, rule.set))
    if value is not None:

        def of_value() -> str:
            if plan.artefacts[artefact].search is not None:
                return f"{file}: artefacts.{name}.search, {value}"
            return f"{suite}: {_place_of(plan, artefact, str(value), settings)}, {value}"

        sources.append((of_value, settings))
    return [*sources, (lambda: f"{file}: {experiment.place(f'methods.{method_id}')}", row.set)]


def _rule_place(plan: Plan, paper: str, index: int, rule: Rule, more: str = "") -> str:
    place = f"suites/{plan.suite.name}.yaml: {plan.suite.place(f'papers.{paper}.rules[{index}]')}"
    return f"{place} (methods {', '.join(rule.methods)}){more}"


def _place_of(plan: Plan, artefact: str, value: str, settings: Mapping[str, Any]) -> str:
    """Return the artefact of a sweep's value, and the matrix where one makes it."""
    paper, name = artefact.split("/")
    place = f"papers.{paper}.artefacts.{name}"
    for index, grid in enumerate(plan.suite.papers[paper].artefacts[name]):
        if grid.values.get(value) == settings:
            written = plan.suite.place(f"{place}[{index}].values.{value}")
            return f"{place}, {written.rpartition(', ')[2]}" if ", matrix of " in written else place
    return place
