"""results/<suite>/baselines.csv: every result without privacy next to its references.

The floor of relation prediction is what the entities' own vectors give untrained.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.config.experiment import ACCURACY
from dpgraph.config.literature import Baselines
from dpgraph.config.streams import split_number
from dpgraph.core.errors import UserError
from dpgraph.core.files import read_json
from dpgraph.planning.plan import Entry, Plan
from dpgraph.planning.resolve import inference_of
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.registry import problem_of
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.inputs import RELATIONS, compared
from dpgraph.reporting.references import reference_of
from dpgraph.reporting.results import EntryResult, Results, Summary, summarise, write_csv
from dpgraph.reporting.views.variance.components import crossed_run

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
SPLITS = "reference_splits"  # a column


@dataclass(frozen=True)
class Reference:
    """A number to compare a result with: accuracy in percent; nan, and `reason` says why, where there is none."""

    model: str
    kind: str  # literature, computed or zero-shot
    accuracy: float = math.nan
    source: str = ""
    reason: str = ""
    splits: str = ""  # of a computed one


Kept = Mapping[tuple[str, ...], Reference]  # by paper, cell, model and splits


def baselines(plan: Plan, known: Baselines, results: pd.DataFrame | None, kept: Kept | None = None) -> pd.DataFrame:
    """Return a row for each result without privacy and each of its references, or for the result alone without any.

    Accuracies are in percent, `ci_low` and `ci_high` the 95 % interval of our mean, `difference` ours minus the
    reference. `below` says whether that is more than the tolerance, `reason` why a result may be so. On relations the
    numbers are mean reciprocal ranks, the reference is the vectors' own cosine, and there is no tolerance.
    `reference_splits` are those over which a computed reference is averaged: those of the seeds that ended well. One
    that this run did not compute is taken from `kept`.
    """
    found = Results.of(results)
    rows = [row for entry in compared(plan) for row in _rows(plan, known, found, kept or {}, entry)]
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None)


def _rows(plan: Plan, known: Baselines, results: Results, kept: Kept, entry: Entry) -> Iterator[dict[str, Any]]:
    if problem_of(entry.cell.task).name == RELATIONS:
        floor, above, why = _floor(plan, results, entry)
        reference = Reference(ZERO_SHOT, "zero-shot", floor, "computed here")
        outcome = results.outcome(entry, RANKS)
        yield _row(entry, outcome, outcome.summary(), reference, above.mean, bool(above.mean <= 0), why)
        return
    outcome, ours, splits = _ours(entry, results.outcome(entry, ACCURACY))
    for reference in list(_references(plan, known, kept, entry, splits)) or [Reference("", "", reason="no reference")]:
        difference = ours.mean - reference.accuracy
        below = bool(difference < -TOLERANCE)
        reason = known.reason(entry.paper, entry.method_id, entry.task_id, reference.kind)
        told = reference.reason or (reason if below else "")
        yield _row(entry, outcome, ours, reference, difference, below, told)


def _ours(entry: Entry, outcome: EntryResult) -> tuple[EntryResult, Summary, list[int]]:
    """Return a result, its summary and its splits: where nothing ended well, those of all seeds.

    Seeds of a crossed design share splits and initialisations, so that the interval is that of its components.
    """
    cell = entry.cell
    if outcome.ok and cell.seeds_per_split is not None:
        run = crossed_run(entry, outcome)
        if (made := run.components) is not None:
            summary = Summary(made.mean, math.nan, made.splits * made.initialisations, *made.mean_interval)
            return run.outcome, summary, [int(split) for split in run.values.index]
        outcome = run.outcome
    seeds = outcome.values.index if outcome.ok else cell.seeds
    return outcome, outcome.summary(), sorted({split_number(cell, int(seed)) for seed in seeds})


def _row(
    entry: Entry, outcome: EntryResult, ours: Summary, reference: Reference, difference: float, below: bool, reason: str
) -> dict[str, Any]:
    task = entry.cell.task
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
        SPLITS: reference.splits,
        "source": reference.source,
        "difference": difference,
        "below": below,
        "reason": reason,
        "cell": entry.cell.slug,
    }


def _references(plan: Plan, known: Baselines, kept: Kept, entry: Entry, splits: Sequence[int]) -> Iterator[Reference]:
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
        key = (entry.paper, entry.cell.slug, kind, _listed(splits))
        yield kept.get(key, Reference(kind, "computed", reason=f"{path}: no such file"))
        return
    record = read_json(path)
    by_split = dict(zip(record.get("splits", ()), record["accuracy"].get(kind, ()), strict=False))
    values = [by_split[split] for split in splits if split in by_split]
    if len(values) == len(splits):
        yield Reference(kind, "computed", 100 * float(np.mean(values)), record["source"], splits=_listed(splits))
    elif record["reason"]:
        yield Reference(kind, "computed", reason=record["reason"])
    elif kind in record["accuracy"]:
        yield Reference(kind, "computed", reason=f"{path}: of other splits: delete it and run again")


def _listed(splits: Iterable[int]) -> str:
    return " ".join(map(str, splits))


def write_baselines(plan: Plan, known: Baselines, results: pd.DataFrame | None, path: Path) -> pd.DataFrame:
    table = baselines(plan, known, results)
    write_csv(table, path)
    return table


def shipped_baselines(
    plan: Plan, known: Baselines, results: pd.DataFrame, tables: Iterable[Path]
) -> tuple[pd.DataFrame, int]:
    """Return the table of these results, and how many of them it leaves out for want of a computed reference.

    A reference that this run did not compute is kept from the earlier tables if it is of the same splits.
    """
    kept = {key: reference for path in tables for key, reference in _kept_references(path)}
    table = baselines(plan, known, results, kept)
    lost = (table["kind"] == "computed") & table["reference_accuracy"].isna()
    return table[~lost], int((lost & (table["status"] == "ok")).sum())


def _kept_references(path: Path) -> Iterator[tuple[tuple[str, ...], Reference]]:
    table = pd.read_csv(path, keep_default_na=False, na_values={"reference_accuracy": ""}, dtype={SPLITS: str})
    for row in table[(table["kind"] == "computed") & table["reference_accuracy"].notna()].to_dict("records"):
        reference = Reference(
            row["reference"], "computed", row["reference_accuracy"], row["source"], splits=row[SPLITS]
        )
        yield (row["paper"], row["cell"], row["reference"], row[SPLITS]), reference


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
