"""Confusions: which classes a run takes for which, and the largest confusions of a reference beside those of others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import formats, protection
from dpgraph.reporting.class_wise import described
from dpgraph.reporting.display import DASH, EPSILON_REMARK, Block, Footnotes, Table, Text
from dpgraph.reporting.hard_cases import Predictions
from dpgraph.reporting.paper_values import paper_confusions
from dpgraph.reporting.results import MISSING, Outcome, Results

LARGEST = 10  # confusions that a table lists for each task
NO_PREDICTIONS = "no predictions: the graph or the files of the seeds are not there"


@dataclass(frozen=True)
class Confusion:
    """Of one entry: `shares[seed, true, predicted]` of the test nodes of each class; the last column is "no class".

    Rows of classes without test nodes are nan. `support` holds the classes' test nodes. Both are empty where `outcome`,
    the overall accuracy, is not ok.
    """

    entry: Entry
    outcome: Outcome
    shares: np.ndarray
    support: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """(classes, classes + 1), in percent."""
        return 100 * self.shares.mean(axis=0)


EMPTY = np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64)


def confusions(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Confusion]:
    """One per entry of the artefact, in its order."""
    found = None if results is None else Results(results)
    predictions = Predictions(plan)
    return [_confusion(plan, entry, found, predictions) for entry in plan.entries_of(artefact_id)]


def _confusion(plan: Plan, entry: Entry, results: Results | None, predictions: Predictions) -> Confusion:
    if results is None:
        return Confusion(entry, MISSING, *EMPTY)
    outcome = results.outcome(entry, plan.artefacts[entry.artefact].metric)
    if not outcome.ok:
        return Confusion(entry, outcome, *EMPTY)
    tested = predictions.tested(entry.task_id)
    by_seed = [predictions.predicted(entry, int(seed)) for seed in outcome.values.index]
    if tested is None or any(predicted is None for predicted in by_seed):
        return Confusion(entry, Outcome("not run", NO_PREDICTIONS, MISSING.values), *EMPTY)
    labels = tested[1]
    classes = int(max(labels.max(), *(predicted.max() for predicted in by_seed if predicted is not None))) + 1
    support = np.bincount(labels, minlength=classes)
    with np.errstate(invalid="ignore"):
        shares = [
            counts(labels, predicted, classes) / support[:, None] for predicted in by_seed if predicted is not None
        ]
    return Confusion(entry, outcome, np.stack(shares), support)


def counts(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """(classes, classes + 1): test nodes by true and predicted class; the last column is "no class"."""
    columns = np.where(predicted < 0, classes, predicted).astype(np.int64)
    flat = np.bincount(labels * (classes + 1) + columns, minlength=classes * (classes + 1))
    return flat.reshape(classes, classes + 1)


def confusion_points(found: list[Confusion]) -> pd.DataFrame:
    """A row per entry and pair of classes with a share above 0, in percent; one row with class -1 where nothing is."""
    parts = []
    for one in found:
        if not one.shares.size:
            rows = pd.DataFrame({"true_class": [-1], "predicted_class": -1, "test_nodes": 0, "share": math.nan})
        else:
            mean = one.mean
            std = 100 * one.shares.std(axis=0, ddof=1) if len(one.shares) > 1 else np.full(mean.shape, math.nan)
            true, predicted = np.nonzero(np.nan_to_num(mean) > 0)
            rows = pd.DataFrame(
                {
                    "true_class": true,
                    "predicted_class": np.where(predicted == len(one.support), -1, predicted),
                    "test_nodes": one.support[true],
                    "share": mean[true, predicted],
                    "share_std": std[true, predicted],
                }
            )
        head = pd.DataFrame([described(one.entry, one.outcome)] * len(rows))
        parts.append(pd.concat([head, rows.reset_index(drop=True)], axis=1))
    return pd.concat(parts, ignore_index=True)


def largest(one: Confusion, count: int = LARGEST) -> list[tuple[int, int]]:
    """(true, predicted) of the largest shares off the diagonal, descending; equal ones by class."""
    mean = np.nan_to_num(one.mean)[:, :-1].copy()
    np.fill_diagonal(mean, 0.0)
    order = np.argsort(-mean, axis=None, kind="stable")[:count]
    pairs = [divmod(int(place), mean.shape[1]) for place in order]
    return [(true, predicted) for true, predicted in pairs if mean[true, predicted] > 0]


def wrong_classes(one: Confusion, true: int) -> float:
    """Effective number of wrong classes of a true class: exp of the entropy of its errors; nan without errors.

    1: all errors go to one class.
    """
    errors = np.delete(one.mean[true], true)
    total = errors.sum()
    if not total > 0:
        return math.nan
    shares = errors[errors > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def confusion_display(plan: Plan, artefact_id: str, title: str, found: list[Confusion], table: pd.DataFrame) -> Table:
    """A block per task: the reference's largest confusions, and those that the paper prints, by run."""
    artefact = plan.artefacts[artefact_id]
    reference = artefact.reference if isinstance(artefact.reference, str) else artefact.methods[0]
    notes = Footnotes()
    runs = {_run(one): one for one in found}
    blocks = []
    for task_id, (task, _) in plan.tasks_of(artefact_id).items():
        own = {name: one for name, one in ((_run(one), one) for one in found) if one.entry.task_id == task_id}
        base = next((one for one in own.values() if one.entry.method_id == reference), None)
        line = [own.get(name) for name in runs]
        rows = [] if base is None else _rows(plan, base, line)
        blocks.append(Block(task.label, [*_heads(line, notes), *rows]))
    label = plan.experiments[artefact_id.split("/")[0]].methods[reference].label
    remarks = [
        f"Share of a class’s test nodes that a run takes for another class (%), mean over seeds: the {LARGEST} largest "
        f"of {label}, and those that the paper prints. Wrong classes: exp of the entropy of a class’s errors, the mean "
        "over the classes listed; 1 means that all errors of a class go to one other class.",
        EPSILON_REMARK,
        *protection.remarks(table),
    ]
    columns = ["True class", "Taken for", "Test nodes", "Paper (%)", *runs]
    return Table(title, columns, blocks, notes.texts, remarks, text_columns=2)


def _run(one: Confusion) -> str:
    target = one.entry.epsilon
    return one.entry.method.label + ("" if target is None else f", target ε = {formats.significant(target)}")


def _heads(line: list[Confusion | None], notes: Footnotes) -> list[list[Text]]:
    """Both epsilons of each run and what they are about; its reason where it has no predictions."""
    cells = []
    for one in line:
        if one is None:
            cells.append(Text(DASH))
        elif not one.shares.size:
            cells.append(Text(one.outcome.status, (notes.number(one.outcome.reason),) if one.outcome.reason else ()))
        else:
            both = (one.outcome.eps_published, one.outcome.eps_rigorous)
            cells.append(Text(" / ".join(map(formats.epsilon, both)) + protection.mark(one.outcome.privacy)))
    rows = [[Text("ε published / rigorous"), *cells]]
    for name in ("relation", "scope"):
        shown = (DASH if one is None else protection.both(one.outcome.privacy, name) for one in line)
        rows.append([Text(name), *map(Text, shown)])
    return [[head, *[Text("")] * 3, *rest] for head, *rest in rows]


def _rows(plan: Plan, base: Confusion, line: list[Confusion | None]) -> list[list[Text]]:
    if not base.shares.size:
        return []
    printed: Mapping[tuple[int, int], str] = paper_confusions(plan.experiments[base.entry.paper], base.entry)
    pairs = dict.fromkeys([*largest(base), *(pair for pair in printed if max(pair) < len(base.support))])
    rows = [
        [
            Text(str(true)),
            Text(str(predicted)),
            Text(formats.count(base.support[true])),
            Text(printed.get((true, predicted), DASH)),
            *(_share(one, true, predicted) for one in line),
        ]
        for true, predicted in pairs
    ]
    listed = list(dict.fromkeys(true for true, _ in pairs))
    rows.append([Text("wrong classes"), *[Text("")] * 3, *(_spread(one, listed) for one in line)])
    return rows


def _share(one: Confusion | None, true: int, predicted: int) -> Text:
    if one is None or not one.shares.size or true >= len(one.support):
        return Text(DASH)
    share = one.mean[true, predicted] if predicted < len(one.support) else 0.0
    return Text(DASH if math.isnan(share) else f"{share:.1f}")


def _spread(one: Confusion | None, listed: list[int]) -> Text:
    if one is None or not one.shares.size:
        return Text(DASH)
    found = [value for true in listed if not math.isnan(value := wrong_classes(one, true))]
    return Text(f"{np.mean(found):.1f}" if found else DASH)
