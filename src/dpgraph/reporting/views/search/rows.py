"""Hyper-parameter searches: trials ranked on validation data, the best ones' settings, and what selecting costs."""

from __future__ import annotations

import json
import math
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from dpgraph.config.experiment import Search
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.dictionary import MECHANISM
from dpgraph.reporting.results import EntryResult, Results, Summary
from dpgraph.reporting.views.search.cost import NOT_ACCOUNTED, TuningCost, tuning_cost

SearchKey = tuple[str, str, float]  # method, task, target epsilon
UNLIKE_TRIALS = f"{NOT_ACCOUNTED}: trials differ in relation or scope, and one of each kind is selected"


COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "dataset", "setting", "variant",
           "epsilon_target")  # fmt: skip


class Trial(NamedTuple):
    entry: Entry
    outcome: EntryResult  # of the validation metric
    validation: Summary

    @property
    def kind(self) -> tuple[str, str]:
        """Relation and scope of its rigorous epsilon: trials are ranked within one kind only."""
        return self.outcome.guarantee.rigorous.relation, self.outcome.guarantee.rigorous.scope

    @property
    def complete(self) -> bool:
        """All seeds ended well; no other trial can be selected."""
        return self.outcome.ok and self.validation.n == len(self.entry.cell.seeds)


def search_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per trial: by method, target epsilon and task, the selected one first, then by rank.

    Trials are ranked by the mean of `Search.metric` over all their seeds; equal means keep the order of the trials. A
    trial of which a seed failed or is missing has no rank. Where the trials' rigorous epsilons differ in relation or
    scope, those of one relation and scope are ranked separately, and one is selected among them. Accuracies are in
    percent; the test accuracy is given for the selected trial only. `tuning_epsilon` is that of a release of the
    selected run, nan where `tuning_reason` states why none holds.
    """
    search = search_of(plan, artefact_id)
    known = Results.of(results)
    metric = plan.artefacts[artefact_id].metric
    rows = []
    for _, entries in groupby(_ordered(plan, artefact_id), key=_key):
        trials = [Trial(entry, *_outcome(entry, known, search.metric)) for entry in entries]
        kinds = dict.fromkeys(trial.kind for trial in trials if trial.complete)
        for kind in kinds:
            ranked = sorted(
                (trial for trial in trials if trial.complete and trial.kind == kind),
                key=lambda trial: -trial.validation.mean,
            )
            count = len(trials) if len(kinds) == 1 else sum(trial.kind == kind for trial in trials)
            mechanism = mechanism_of(known, ranked[0].entry)
            cost = tuning_cost(search, [trial.entry for trial in trials], mechanism)
            if len(kinds) > 1 and not cost.reason:
                cost = TuningCost(math.nan, UNLIKE_TRIALS)
            chosen = _selected(_outcome(ranked[0].entry, known, metric)[1], cost)
            rows += [_row(trial, rank, count) | (chosen if rank == 1 else {}) for rank, trial in enumerate(ranked, 1)]
        rows += [_row(trial, None, len(trials)) for trial in trials if not trial.complete]
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None)


def mechanism_of(known: Results, entry: Entry) -> dict[str, Any] | None:
    """Return the recorded mechanism in JSON form, from the columns of its fields; None where it was not recorded."""
    frame = known.frame[(known.frame["cell"] == entry.cell.slug) & (known.frame["status"] == "ok")]
    names = [name for name in frame if name.startswith(f"{MECHANISM}.")]
    if entry.cell.privacy is None or frame.empty or not names:
        return None
    row = frame.iloc[0]
    fields = {name.removeprefix(f"{MECHANISM}."): row[name] for name in names}
    return {name: value for name, value in fields.items() if value == value and value != ""} | {
        "steps": int(row["steps"]),
        "delta": float(row["delta"]),
    }


def search_of(plan: Plan, artefact_id: str) -> Search:
    search = plan.artefacts[artefact_id].search
    if search is None:
        raise UserError(f"{artefact_id}: expected an artefact with a search")
    return search


def _key(entry: Entry) -> SearchKey:
    return entry.method_id, entry.task_id, math.inf if entry.target_epsilon is None else entry.target_epsilon


def _ordered(plan: Plan, artefact_id: str) -> list[Entry]:
    """The entries with those of one key together, keys and trials in the plan's order."""
    entries = plan.entries_of(artefact_id)
    first: dict[SearchKey, int] = {}
    for position, entry in enumerate(entries):
        first.setdefault(_key(entry), position)
    return sorted(entries, key=lambda entry: first[_key(entry)])


def _outcome(entry: Entry, results: Results, metric: str) -> tuple[EntryResult, Summary]:
    outcome = results.outcome(entry, metric)
    return outcome, outcome.summary()


def _selected(test: Summary, cost: TuningCost) -> dict[str, Any]:
    """What is stated about the selected trial alone."""
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
        **of_entry(entry, *COLUMNS),
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
