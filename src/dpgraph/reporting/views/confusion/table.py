"""The largest confusions of a reference and those that the paper prints, beside those of every run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats, protection
from dpgraph.reporting.artefacts import heading
from dpgraph.reporting.display import DASH, EPSILON_REMARK, Footnotes, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.paper_values import paper_confusions
from dpgraph.reporting.views.confusion.rows import (
    LARGEST,
    Confusion,
    confusion_points,
    confusions,
    largest,
    wrong_classes,
)


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    made = confusions(plan, artefact_id, results)
    frame = confusion_points(made)
    return MadeTable(frame, confusion_display(plan, artefact_id, heading(plan, artefact_id), made, frame))


def confusion_display(plan: Plan, artefact_id: str, title: str, made: list[Confusion], table: pd.DataFrame) -> Table:
    """A block per task: the reference's largest confusions, and those that the paper prints, by run."""
    artefact = plan.artefacts[artefact_id]
    reference = artefact.reference if isinstance(artefact.reference, str) else artefact.methods[0]
    notes = Footnotes()
    runs = {_run(one): one for one in made}
    blocks = []
    for task_id, (task, _) in plan.tasks_of(artefact_id).items():
        own = {name: one for name, one in ((_run(one), one) for one in made) if one.entry.task_id == task_id}
        base = next((one for one in own.values() if one.entry.method_id == reference), None)
        line = [own.get(name) for name in runs]
        rows = [] if base is None else _rows(plan, base, line)
        blocks.append(RowGroup(task.label, [*_heads(line, notes), *rows]))
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
    target = one.entry.target_epsilon
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
            both = (one.outcome.guarantee.published.epsilon, one.outcome.guarantee.rigorous.epsilon)
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
    numbers = [value for true in listed if not math.isnan(value := wrong_classes(one, true))]
    return Text(f"{np.mean(numbers):.1f}" if numbers else DASH)
