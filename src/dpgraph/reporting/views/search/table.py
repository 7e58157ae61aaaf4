"""Tables of hyper-parameter searches: trials ranked on validation data, and the epsilon of selecting the best one."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpgraph.config.expansion import flat
from dpgraph.config.experiment import Search
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import display, formats, protection
from dpgraph.reporting.artefacts import EntryRun, heading, of_entry
from dpgraph.reporting.dictionary import MECHANISM
from dpgraph.reporting.display import Footnotes, MadeTable, Table, Text
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import Results, Summary
from dpgraph.reporting.views.search.cost import NOT_ACCOUNTED, TuningCost, tuning_cost

SearchKey = tuple[str, str, float]  # method, task, target epsilon
UNLIKE_TRIALS = f"{NOT_ACCOUNTED}: trials differ in relation or scope, and one of each kind is selected"


COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "dataset", "setting", "variant",
           "epsilon_target")  # fmt: skip


@dataclass(frozen=True)
class Trial(EntryRun):
    """One trial: its outcome is that of the validation metric."""

    @property
    def validation(self) -> Summary:
        """Return its score."""
        return self.outcome.summary()

    @property
    def kind(self) -> tuple[str, str]:
        """Return relation and scope of the proved epsilon; trials are ranked within one kind."""
        return self.outcome.guarantee.rigorous.relation, self.outcome.guarantee.rigorous.scope

    @property
    def complete(self) -> bool:
        """Return whether all seeds ended well; other trials are never selected."""
        return self.outcome.ok and self.validation.n == len(self.entry.cell.seeds)


def search_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per trial: by method, target epsilon and task, the selected trial first, then by rank.

    Trials are ranked by the mean of `Search.metric` over all their seeds; equal means keep the order of the trials. A
    trial with a failed or missing seed has no rank. Where the proved epsilons of trials differ in relation or scope,
    each kind is ranked separately and has a selected trial. Accuracies are in percent; only the selected trial has a
    test accuracy. `tuning_epsilon` is the epsilon of releasing the selected run; nan where `tuning_reason` says why
    none holds.
    """
    search = search_of(plan, artefact_id)
    known = Results.of(results)
    metric = plan.artefacts[artefact_id].metric
    by_key: dict[SearchKey, list[Entry]] = {}
    for entry in plan.entries_of(artefact_id):
        by_key.setdefault(_key(entry), []).append(entry)
    rows = []
    for entries in by_key.values():
        trials = [Trial(entry, known.outcome(entry, search.metric)) for entry in entries]
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
            test = known.outcome(ranked[0].entry, metric).summary()
            # of the selected trial alone
            chosen: dict[str, Any] = {"selected": True, "test_mean": test.mean, "test_std": test.std}
            chosen |= {"tuning_epsilon": cost.epsilon, "tuning_reason": cost.reason}
            rows += [_row(trial, rank, count) | (chosen if rank == 1 else {}) for rank, trial in enumerate(ranked, 1)]
        rows += [_row(trial, None, len(trials)) for trial in trials if not trial.complete]
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None)


def mechanism_of(results: Results, entry: Entry) -> dict[str, Any] | None:
    """Return the recorded mechanism in JSON form, from the columns of its fields; None where it was not recorded."""
    frame = results.frame[(results.frame["cell"] == entry.cell.slug) & (results.frame["status"] == "ok")]
    names = [name for name in frame if name.startswith(f"{MECHANISM}.")]
    if entry.cell.privacy is None or frame.empty or not names:
        return None
    row = frame.iloc[0]
    fields = {name.removeprefix(f"{MECHANISM}."): row[name] for name in names}
    known = {name: value for name, value in fields.items() if value == value and value != ""}
    return known | {"steps": int(row["steps"]), "delta": float(row["delta"])}


def search_of(plan: Plan, artefact_id: str) -> Search:
    """Return the artefact's search. Raise UserError where it has none."""
    search = plan.artefacts[artefact_id].search
    if search is None:
        raise UserError(f"{artefact_id}: expected an artefact with a search")
    return search


def _key(entry: Entry) -> SearchKey:
    return entry.method_id, entry.task_id, math.inf if entry.target_epsilon is None else entry.target_epsilon


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


SHOWN = 5  # trials of each method, task and target (and of each relation and scope); the CSV file has all
KINDS = ["task", "method", "epsilon_target", "relation_rigorous", "scope_rigorous"]


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of an artefact."""
    frame = search_table(plan, artefact_id, results)
    metrics = (search_of(plan, artefact_id).metric, plan.artefacts[artefact_id].metric)
    table = search_display(heading(plan, artefact_id), frame, *(quantity(metric).label for metric in metrics))
    return MadeTable(frame, table)


def search_display(title: str, table: pd.DataFrame, validation: str, test: str) -> Table:
    """Lay out the rows of `search_table`, a block per task; `validation` and `test` head the values."""
    notes = Footnotes()
    best = table.groupby(KINDS, sort=False, dropna=False).head(SHOWN)
    blocks = display.by_task(best, lambda row: _cells(row, notes))
    values = [validation.capitalize(), test.capitalize()]
    columns = ["Method", "Settings", "Target ε", "Rank", *values, *display.EPSILON_HEADS, "ε with tuning"]
    remarks = [
        f"Trials by their mean on validation nodes, at most {SHOWN} of each method and target; the CSV file has all. "
        "Trials that differ in relation or scope are ranked separately. "
        "Values: mean ± sample standard deviation over the seeds. Only the selected trial has a test value.",
        display.EPSILON_REMARK,
        "ε with tuning: the cost of releasing the selected run with all its seeds, but not the other trials or their "
        "number. It has the relation and scope of ε proved; features, labels and edges of validation nodes are "
        "public. ε claimed and ε proved cover one seed of one trial.",
        *protection.remarks(table),
    ]
    return Table(title, columns, blocks, notes.texts, remarks, text_columns=2)


def _cells(row: dict[str, Any], notes: Footnotes) -> list[Text]:
    selected = row["selected"]
    ranked = not math.isnan(row["rank"])
    return [
        Text(row["label"]),
        Text(settings_text(json.loads(row["settings"]))),
        display.target_cell(row),
        Text(f"{row['rank']:.0f} of {row['trials']}{', selected' if selected else ''}" if ranked else DASH),
        display.measure_cell(row, "validation") if ranked else display.failure(row, notes),
        display.measure_cell(row, "test"),
        *display.epsilon_cells(row, notes),
        _tuning(row, notes) if selected else Text(DASH),
    ]


def _tuning(row: dict[str, Any], notes: Footnotes) -> Text:
    if math.isnan(row["tuning_epsilon"]):
        return Text("not accounted", (notes.number(row["tuning_reason"]),))
    return Text(formats.epsilon(row["tuning_epsilon"]) + protection.mark(row))


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as text: the last parts of their paths, or whole paths where two last parts are equal.

    >>> settings_text({"training": {"learning_rate": 0.01}, "model": {"width": 64}})
    'learning_rate=0.01, width=64'
    """
    by_path = flat(settings)
    last = [path.rpartition(".")[2] for path in by_path]
    names = last if len(set(last)) == len(last) else list(by_path)
    return ", ".join(f"{name}={value}" for name, value in zip(names, by_path.values(), strict=True))
