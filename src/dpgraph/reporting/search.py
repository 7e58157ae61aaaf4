"""Hyper-parameter searches: trials ranked on validation data, the best ones' settings, and what selecting costs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from dpgraph.errors import UserError
from dpgraph.experiments.experiment import Search
from dpgraph.experiments.paths import Paths
from dpgraph.files import write_text
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import formats, protection
from dpgraph.reporting.aggregate import aggregate, read_record
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import Table
from dpgraph.reporting.results import MISSING, Outcome, Results, Summary, read_results
from dpgraph.reporting.search_display import search_display
from dpgraph.reporting.tuning_cost import NOT_ACCOUNTED, TuningCost, tuning_cost

SearchKey = tuple[str, str, float]  # method, task, target epsilon
UNLIKE_TRIALS = f"{NOT_ACCOUNTED}: trials differ in relation or scope, and one of each kind is selected"


class Trial(NamedTuple):
    entry: Entry
    outcome: Outcome  # of the validation metric
    validation: Summary

    @property
    def kind(self) -> tuple[str, str]:
        """Relation and scope of its rigorous epsilon: trials are ranked within one kind only."""
        return self.outcome.relation_rigorous, self.outcome.scope_rigorous

    @property
    def complete(self) -> bool:
        """All seeds ended well; no other trial can be selected."""
        return self.outcome.ok and self.validation.n == len(self.entry.cell.seeds)


def search_view(
    plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Any = None
) -> tuple[pd.DataFrame, Table]:
    """Long form and display of a search, with the recorded mechanisms where there are records."""
    frame = search_table(plan, artefact_id, results, recorded_mechanisms(plan, artefact_id))
    artefact = plan.artefacts[artefact_id]
    search = _search_of(plan, artefact_id)
    names = (formats.metric(search.metric), formats.metric(artefact.metric))
    return frame, search_display(heading(plan, artefact_id), frame, *names)


def search_table(
    plan: Plan,
    artefact_id: str,
    results: pd.DataFrame | None,
    mechanisms: Mapping[str, Mapping[str, Any]] | None = None,
) -> pd.DataFrame:
    """One row per trial: by method, target epsilon and task, the selected one first, then by rank.

    Trials are ranked by the mean of `Search.metric` over all their seeds; equal means keep the order of the trials. A
    trial of which a seed failed or is missing has no rank. Where the trials' rigorous epsilons differ in relation or
    scope, those of one relation and scope are ranked by themselves, and one is selected among them. Accuracies are in
    percent; the test accuracy stands at the selected trial only. `tuning_epsilon` is that of a release of the selected
    run, nan where `tuning_reason` says why none holds. `mechanisms` are the recorded ones, in JSON form, by cell.
    """
    search = _search_of(plan, artefact_id)
    found = None if results is None else Results(results)
    metric = plan.artefacts[artefact_id].metric
    rows = []
    for _, entries in groupby(_ordered(plan, artefact_id), key=_key):
        trials = [Trial(entry, *_outcome(entry, found, search.metric)) for entry in entries]
        kinds = dict.fromkeys(trial.kind for trial in trials if trial.complete)
        for kind in kinds:
            ranked = sorted(
                (trial for trial in trials if trial.complete and trial.kind == kind),
                key=lambda trial: -trial.validation.mean,
            )
            count = len(trials) if len(kinds) == 1 else sum(trial.kind == kind for trial in trials)
            mechanism = (mechanisms or {}).get(ranked[0].entry.cell.slug)
            cost = tuning_cost(search, [trial.entry for trial in trials], mechanism)
            if len(kinds) > 1 and not cost.reason:
                cost = TuningCost(math.nan, UNLIKE_TRIALS)
            chosen = _selected(_outcome(ranked[0].entry, found, metric)[1], cost)
            rows += [_row(trial, rank, count) | (chosen if rank == 1 else {}) for rank, trial in enumerate(ranked, 1)]
        rows += [_row(trial, None, len(trials)) for trial in trials if not trial.complete]
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None)


def search_results(plan: Plan, artefact_id: str, path: Path) -> pd.DataFrame:
    """All metrics of the search's own cells, also written to `path`: no other cell of the suite need have run."""
    aggregate(replace(plan, entries=tuple(plan.entries_of(artefact_id))), path)
    return read_results(path)


def recorded_mechanisms(plan: Plan, artefact_id: str) -> dict[str, dict[str, Any]]:
    """Mechanisms that ran, in JSON form, by cell; cells without a record or a statement are left out."""
    paths = Paths(plan.config)
    found = {}
    for entry in plan.entries_of(artefact_id):
        if paths.result(entry.cell).is_file():
            statement = read_record(paths.result(entry.cell)).record.statement
            if statement is not None and entry.cell.privacy is not None:
                found[entry.cell.slug] = statement["mechanism"]
    return found


def write_best(plan: Plan, artefact_id: str, results: pd.DataFrame, stem: Path) -> None:
    """Writes stem.best.yaml: the selected settings as rules of a suite."""
    frame = search_table(plan, artefact_id, results, recorded_mechanisms(plan, artefact_id))
    write_text(stem.with_name(f"{stem.name}.best.yaml"), best_settings(plan, artefact_id, frame))


def best_settings(plan: Plan, artefact_id: str, frame: pd.DataFrame) -> str:
    """From `search_table`: a list of a suite's rules in YAML, one per selected trial.

    What the selected trials reached stands in comments.
    """
    paper = artefact_id.split("/")[0]
    lines = [
        f"# Selected by the search {artefact_id} of suite {plan.suite.name}. These are rules: paste them below",
        f"# papers.{paper}.rules, after the others. A rule knows no target epsilon: of several rules for one method",
        "# and task keep one.",
    ]
    chosen = frame[frame["selected"]] if len(frame) else frame
    for row in chosen.to_dict("records"):
        rule = {"methods": [row["method"]], "tasks": [row["task"]], "set": json.loads(row["settings"])}
        lines += [f"# {text}" for text in _description(row)]
        lines.append(yaml.safe_dump([rule], sort_keys=False, default_flow_style=None, width=110).rstrip())
    return "\n".join([*lines, *([] if len(chosen) else ["[]"])]) + "\n"


def _description(row: dict[str, Any]) -> list[str]:
    target = "" if math.isnan(row["epsilon_target"]) else f", target epsilon {row['epsilon_target']:g}"
    lines = [
        f"{row['label']} on {row['task_label']}{target}: {row['trial']} of {row['trials']}, "
        f"validation {row['validation_mean']:.2f} % over {row['n']} seeds"
    ]
    if row["variant"] != "none":
        shown = {mode: formats.epsilon(row[f"eps_{mode}"]) for mode in protection.MODES}
        kinds = {mode: protection.of_epsilon(row, mode) for mode in protection.MODES}
        both = " and ".join(f"{mode} {shown[mode]}" + (f" ({kind})" if kind else "") for mode, kind in kinds.items())
        paid = row["tuning_reason"] or f"{formats.epsilon(row['tuning_epsilon'])} with the selection"
        lines.append(f"epsilon of the run: {both}; {paid}")
        lines += [f"no epsilon covers: {text}" for text in protection.parted(row["uncovered"])]
    return lines


def _search_of(plan: Plan, artefact_id: str) -> Search:
    search = plan.artefacts[artefact_id].search
    if search is None:
        raise UserError(f"{artefact_id}: expected an artefact with a search")
    return search


def _key(entry: Entry) -> SearchKey:
    return entry.method_id, entry.task_id, math.inf if entry.epsilon is None else entry.epsilon


def _ordered(plan: Plan, artefact_id: str) -> list[Entry]:
    """The entries with those of one key together, keys and trials in the plan's order."""
    entries = plan.entries_of(artefact_id)
    first: dict[SearchKey, int] = {}
    for position, entry in enumerate(entries):
        first.setdefault(_key(entry), position)
    return sorted(entries, key=lambda entry: first[_key(entry)])


def _outcome(entry: Entry, results: Results | None, metric: str) -> tuple[Outcome, Summary]:
    outcome = MISSING if results is None else results.outcome(entry, metric)
    return outcome, outcome.summary()


def _selected(test: Summary, cost: TuningCost) -> dict[str, Any]:
    """What is said of the selected trial alone."""
    return {
        "selected": True,
        "test_mean": test.mean,
        "test_std": test.std,
        "tuning_epsilon": cost.epsilon,
        "tuning_reason": cost.reason,
    }


def _row(trial: Trial, rank: int | None, trials: int) -> dict[str, Any]:
    entry, outcome = trial.entry, trial.outcome
    status, reason = outcome.status, outcome.reason
    if outcome.ok and rank is None:
        done, planned = trial.validation.n, len(entry.cell.seeds)
        status, reason = "incomplete", f"{done} of {planned} seeds ended well{f': {reason}' if reason else ''}"
    return {
        "paper": entry.paper,
        "artefact": entry.artefact.split("/")[1],
        "method": entry.method_id,
        "label": entry.method.label,
        "task": entry.task_id,
        "task_label": entry.suite_task.label,
        "dataset": entry.cell.task.dataset,
        "setting": entry.cell.task.setting,
        "variant": "none" if entry.cell.privacy is None else entry.cell.privacy.variant,
        "epsilon_target": math.nan if entry.epsilon is None else entry.epsilon,
        "trial": entry.value,
        "trials": trials,
        "settings": json.dumps(dict(entry.settings)),
        "rank": math.nan if rank is None else rank,
        "selected": False,
        "validation_mean": trial.validation.mean,
        "validation_std": trial.validation.std,
        "test_mean": math.nan,
        "test_std": math.nan,
        "n": trial.validation.n,
        "n_planned": len(entry.cell.seeds),
        **outcome.privacy,
        "tuning_epsilon": math.nan,
        "tuning_reason": "",
        "status": status,
        "reason": reason,
        "cell": entry.cell.slug,
    }
