"""An artefact of the plan by its id, its heading, and the columns that state what a row is of."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpgraph.config.experiment import Artefact, Experiment
from dpgraph.core.errors import invalid
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.formats import printed_place
from dpgraph.reporting.results import EntryResult

PRINTED = re.compile(r"(table|fig)[\d.]+[a-z]?")  # ids of what is in a paper


@dataclass(frozen=True)
class EntryRun:
    """A place of an artefact and its outcome; a view adds what it shows of them."""

    entry: Entry
    outcome: EntryResult


def artefact_of(plan: Plan, artefact_id: str, kind: str) -> Artefact:
    """Raises UserError where the plan has no such table or figure."""
    of_kind = [name for name, artefact in plan.artefacts.items() if artefact.kind == kind]
    if artefact_id not in of_kind:
        raise invalid(kind, artefact_id, f"one of {', '.join(of_kind)} (suite {plan.suite.name})")
    return plan.artefacts[artefact_id]


def heading(plan: Plan, artefact_id: str) -> str:
    """Return e.g. `Table 1 of daigavane: Test accuracy`, or `ablation (daigavane): …` for an artefact of ours.

    One on data of which the paper has none is `Table 1 of daigavane, on substitutes: …`.
    """
    paper, name = artefact_id.split("/")
    place = _place(name)
    where = f"{place} of {paper}{_on_substitutes(plan, artefact_id)}" if place != name else f"{name} ({paper})"
    mark = " (demonstration)" if plan.suite.demonstration else ""
    return f"{where}: {plan.artefacts[artefact_id].title}{mark}"


def caption(plan: Plan, artefact_id: str) -> str:
    """Return e.g. `Test accuracy, as in Table 1 of Daigavane et al. (2022).`, or the title of an artefact of ours."""
    paper, name = artefact_id.split("/")
    artefact = plan.artefacts[artefact_id]
    place = _place(name)
    source = f", as in {place} of {plan.experiments[paper].cited_as or paper}" if PRINTED.fullmatch(name) else ""
    source += _on_substitutes(plan, artefact_id)
    mark = " (demonstration)" if plan.suite.demonstration else ""
    return f"{artefact.title}{source}{mark}."


def _on_substitutes(plan: Plan, artefact_id: str) -> str:
    known = plan.suite.demonstration or any(task.published for task, _ in plan.tasks_of(artefact_id).values())
    return "" if known or not PRINTED.fullmatch(artefact_id.split("/")[1]) else ", on substitutes"


def _place(name: str) -> str:
    place = printed_place(name)
    return place if place == name else place[0].upper() + place[1:]


def counterparts(entries: Iterable[Entry]) -> dict[str, str]:
    """Return, by private method, the first one without privacy with the same architecture and number of hops."""
    entries = list(entries)
    public: dict[tuple[str, int], str] = {}
    for entry in entries:
        if entry.cell.privacy is None:
            public.setdefault(entry.cell.network, entry.method_id)
    private = (entry for entry in entries if entry.cell.privacy is not None)
    return {entry.method_id: public[entry.cell.network] for entry in private if entry.cell.network in public}


def of_entry(entry: Entry, *names: str) -> dict[str, Any]:
    """Return the named columns that identify the entry of a row."""
    cell = entry.cell
    columns = {
        "paper": entry.paper,
        "artefact": entry.artefact.split("/")[1],
        "task": entry.task_id,
        "task_label": entry.suite_task.label,
        "dataset": cell.task.dataset,
        "setting": cell.task.setting,
        "method": entry.method_id,
        "label": entry.method.label,
        "optimizer": cell.training.optimizer,
        "variant": "none" if cell.privacy is None else cell.privacy.variant,
        "value": entry.value or "",
        "epsilon_target": math.nan if entry.target_epsilon is None else entry.target_epsilon,
    }
    return {name: columns[name] for name in names}


def described(entry: Entry, outcome: EntryResult) -> dict[str, Any]:
    """Return the columns that identify the entry of a row and state its guarantee."""
    names = ("paper", "artefact", "task", "task_label", "method", "label", "variant", "epsilon_target")
    return {
        **of_entry(entry, *names),
        **outcome.privacy,
        "n": len(outcome.values),
        "n_planned": len(entry.cell.seeds),
        "status": outcome.status,
        "reason": outcome.reason,
    }


def own_point(entry: Entry, step: float, outcome: EntryResult) -> dict[str, Any]:
    """Return the columns of a point of ours in a figure, with the mean over seeds; step nan: at the end."""
    shown = of_entry(entry, "value") | {"source": "ours", "step": step} | outcome.summary().columns
    return described(entry, outcome) | shown


def described_rows(runs: Iterable[EntryRun]) -> pd.DataFrame:
    return pd.DataFrame([described(one.entry, one.outcome) for one in runs])


def abouts(plan: Plan, artefact_id: str, rows: pd.DataFrame) -> dict[str, str]:
    """Return what labels of the rows leave out, by label in the file's order; empty for rows without methods."""
    methods = plan.experiments[artefact_id.split("/")[0]].methods
    present = set(rows["method"]) if "method" in rows else set()
    return {row.label: row.about for name, row in methods.items() if name in present and row.about}


def abouts_of_papers(experiments: Mapping[str, Experiment], rows: pd.DataFrame) -> dict[str, str]:
    """Return what labels leave out, by label, of rows of several papers (columns `paper` and `label`)."""
    shown = set(zip(rows["paper"], rows["label"]))
    return {
        row.label: row.about
        for paper, experiment in experiments.items()
        for row in experiment.methods.values()
        if row.about and (paper, row.label) in shown
    }


def described_labels(by_label: Mapping[str, str]) -> list[str]:
    """Return one sentence for each text, after its labels.

    >>> described_labels({"A (paper)": "As printed.", "B (paper)": "As printed.", "Votes": "Ours."})
    ['A (paper), B (paper): As printed.', 'Votes: Ours.']
    """
    texts = dict.fromkeys(by_label.values())
    return [f"{', '.join(label for label, own in by_label.items() if own == text)}: {text}" for text in texts]


def prepend_columns(head: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the same columns `head` before each."""
    return pd.concat([pd.DataFrame([head] * len(rows)), rows.reset_index(drop=True)], axis=1)
