"""results/<suite>/baselines.csv: every result without privacy next to its references.

The floor of relation prediction is what the entities' own vectors give untrained.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.config.literature import Baselines
from dpgraph.core.errors import UserError
from dpgraph.core.files import read_json
from dpgraph.planning.plan import Entry, Plan
from dpgraph.planning.resolve import inference_of
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.registry import problem_of
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.inputs import RELATIONS, compared
from dpgraph.reporting.references import reference_of
from dpgraph.reporting.results import Results, Summary, summarise, write_csv

ZERO_SHOT = "cosine"  # the method without training
RANKS, ON_TRAINED = "mrr/test", "mrr/train"


def _floor(plan: Plan, results: Results, entry: Entry) -> tuple[float, Summary, str]:
    """Return the floor of a result on relations, what it has above it seed by seed, and why it may be below.

    Both are in percent, and nan without results of both. Either the seeds show no difference, or the training tuples
    were learnt without helping on the tested ones.
    """
    same = (entry.paper, entry.task_id, ZERO_SHOT)
    rival = next((one for one in plan.entries if (one.paper, one.task_id, one.cell.method) == same), None)
    test = _differences(results, entry, rival, RANKS)
    difference = summarise(test)
    if rival is None or not len(test):
        return np.nan, difference, f"no results of {ZERO_SHOT} with the same seeds"
    value = 100 * float(results.outcome(rival, RANKS).values.loc[test.index].mean())
    return value, difference, _reason(difference, summarise(_differences(results, entry, rival, ON_TRAINED)))


def _reason(test: Summary, trained: Summary) -> str:
    if test.mean > 0:
        return ""
    interval = f"{test.low:+.2f} to {test.high:+.2f} points"
    if test.high > 0:
        return f"no difference shown: {interval}"
    if trained.low > 0:
        return f"learnt, but not transferred: {trained.mean:+.2f} points on trained tuples, {interval} on tested ones"
    return ""


def _differences(results: Results, entry: Entry, rival: Entry | None, metric: str) -> pd.Series:
    """Return pairs of values of the seeds that both have."""
    ours = results.outcome(entry, metric).values
    if rival is None:
        return ours.iloc[:0]
    return (ours - results.outcome(rival, metric).values).dropna()


TOLERANCE = 1.5  # points
METRIC = "accuracy/test"


@dataclass(frozen=True)
class Reference:
    """A number to compare a result with: accuracy in percent; nan, and `reason` says why, where there is none."""

    model: str
    kind: str  # literature, computed or zero-shot
    accuracy: float = math.nan
    source: str = ""
    reason: str = ""


def baselines(plan: Plan, known: Baselines, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return a row for each result without privacy and each of its references, or for the result alone without any.

    Accuracies are in percent, `ci_low` and `ci_high` the 95 % interval of our mean, `difference` ours minus the
    reference. `below` says whether that is more than the tolerance, `reason` why a result may be so. On relations the
    numbers are mean reciprocal ranks, the reference is the vectors' own cosine, and there is no tolerance.
    """
    found = Results.of(results)
    rows = [row for entry in compared(plan) for row in _rows(plan, known, found, entry)]
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None)


def _rows(plan: Plan, known: Baselines, results: Results, entry: Entry) -> Iterator[dict[str, Any]]:
    if problem_of(entry.cell.task).name == RELATIONS:
        floor, above, why = _floor(plan, results, entry)
        reference = Reference(ZERO_SHOT, "zero-shot", floor, "computed here")
        yield _row(entry, results, RANKS, reference, above.mean, bool(above.mean <= 0), why)
        return
    mean = results.outcome(entry, METRIC).summary().mean
    for reference in list(_references(plan, known, entry)) or [Reference("", "", reason="no reference")]:
        difference = mean - reference.accuracy
        below = bool(difference < -TOLERANCE)
        reason = known.reason(entry.paper, entry.method_id, entry.task_id, reference.kind)
        yield _row(entry, results, METRIC, reference, difference, below, reference.reason or (reason if below else ""))


def _row(
    entry: Entry, results: Results, metric: str, reference: Reference, difference: float, below: bool, reason: str
) -> dict[str, Any]:
    outcome, task = results.outcome(entry, metric), entry.cell.task
    ours = outcome.summary()
    return {
        **of_entry(entry, "paper", "method", "label", "task", "dataset", "setting"),
        "split": task.split,
        "features": task.features,
        "mean": ours.mean,
        "ci_low": ours.low,
        "ci_high": ours.high,
        "n": ours.n,
        "status": outcome.status,
        "reference": reference.model,
        "kind": reference.kind,
        "reference_accuracy": reference.accuracy,
        "source": reference.source,
        "difference": difference,
        "below": below,
        "reason": reason,
        "cell": entry.cell.slug,
    }


def _references(plan: Plan, known: Baselines, entry: Entry) -> Iterator[Reference]:
    task, model = entry.cell.task, entry.cell.model  # type: ignore[attr-defined]
    hops = getattr(model, "hops", 0)  # a model without hops, such as a student of public rows, reads no neighbour
    if task.setting == "transductive":
        printed = known.printed(getattr(model, "architecture", ""), hops, task.dataset, task.split)
        if printed is not None:
            yield Reference(printed.model, "literature", printed.accuracy, printed.source)
    path = plan.paths.reference(task)
    # what propagates the predictions of a network without hops reads neighbours, too
    kind = reference_of(0 if inference_of(entry.cell) is PredictionInput.OWN_RECORD else hops or 2)
    if not path.is_file():
        yield Reference(kind, "computed", reason=f"{path}: no such file")
        return
    record = read_json(path)
    by_seed = dict(zip(record["seeds"], record["accuracy"].get(kind, ()), strict=False))
    values = [by_seed[seed] for seed in entry.cell.seeds if seed in by_seed]
    if len(values) == len(entry.cell.seeds):
        yield Reference(kind, "computed", 100 * float(np.mean(values)), record["source"])
    elif record["reason"]:
        yield Reference(kind, "computed", reason=record["reason"])
    elif kind in record["accuracy"]:
        yield Reference(kind, "computed", reason=f"{path}: of other seeds: delete it and run again")


def write_baselines(plan: Plan, known: Baselines, results: pd.DataFrame | None, path: Path) -> pd.DataFrame:
    table = baselines(plan, known, results)
    write_csv(table, path)
    return table


def complaints(table: pd.DataFrame) -> list[str]:
    """Return a line for each row that is more than the tolerance below its reference without a reason.

    Raises UserError where no result has a reference: the check would be empty.
    """
    if not len(table) or table["difference"].isna().all():
        raise UserError("baselines: no result has a reference: train the suite's methods without privacy first")
    wrong = table[table["below"] & (table["reason"] == "")]
    return [
        f"{row['paper']}/{row['method']} on {row['task']} ({row['split']}): {row['mean']:.1f}, n = {row['n']}, is "
        f"{-row['difference']:.1f} below {row['reference']} {row['reference_accuracy']:.1f} ({row['source']})"
        for row in wrong.to_dict("records")
    ]
