"""Accuracy tables: one row per entry of an artefact, ours next to the paper's."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import chance, display, formats, protection
from dpgraph.reporting.artefacts import heading, of_entry
from dpgraph.reporting.display import Footnotes, MadeTable, Table, Text
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.paper_values import paper_value
from dpgraph.reporting.quantities import Quantity, is_utility
from dpgraph.reporting.ranking import RANKS, REMARK, Key, budget, kind, promise, ranked
from dpgraph.reporting.results import Results

COLUMNS = ("paper", "artefact", "method", "label", "task", "task_label", "dataset", "setting", "optimizer", "variant",
           "value", "epsilon_target")  # fmt: skip


def accuracy_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per entry, in the artefact's order of methods, then epsilon, then task.

    Shares are in percent, mean and sample standard deviation (ddof = 1) over the n seeds that ended well;
    `difference` is ours minus the paper's, in points. The paper's own runs have no proved epsilon, since the paper
    does not print its premises (steps, delta, thresholds). Without results every row says "not run".

    `rank` is `best` or `tied` among rows of one task, kind, budget and promise, or a stronger one, where more than one
    cell competes. Rows with a claimed epsilon have none, nor has a metric that does not measure utility.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    table = pd.DataFrame([_accuracy_row(plan, entry, known) for entry in entries])
    table["rank"] = _ranks(entries, known, artefact.metric)
    if not artefact.chance:
        return table
    return pd.concat([table, pd.DataFrame(chance.chance_columns(entries, known, artefact.metric))], axis=1)


def _accuracy_row(plan: Plan, entry: Entry, results: Results) -> dict[str, Any]:
    artefact = plan.artefacts[entry.artefact]
    experiment = plan.experiments[entry.paper]
    outcome = results.outcome(entry, artefact.metric)
    summary = outcome.summary()
    printed = paper_value(experiment, entry, artefact.metric)
    return {
        **of_entry(entry, *COLUMNS),
        **summary.columns,
        "n": summary.n,
        "n_planned": len(entry.cell.seeds),
        **outcome.privacy,
        "fallback": outcome.fallback,
        "published_value": math.nan if printed is None else printed.value,
        "published_std": math.nan if printed is None or printed.std is None else printed.std,
        "published_text": "" if printed is None else printed.text,
        "published_epsilon": "" if printed is None else printed.epsilon,
        "published_epsilon_rigorous": "" if printed is None else "inf" if entry.cell.privacy is None else "none",
        "difference": math.nan if printed is None else summary.mean - printed.value,
        "status": outcome.status,
        "reason": outcome.reason,
        "cell": entry.cell.slug,
    } | results.reference(entry, artefact.metric)


def _ranks(entries: Sequence[Entry], known: Results, metric: str) -> list[str]:
    """Return the rank of each entry; see `accuracy_table`."""
    outcomes = [known.outcome(entry, metric) for entry in entries]
    targets: dict[str, set[float]] = {}
    for entry in entries:
        targets.setdefault(entry.task_id, set()).update(() if entry.target_epsilon is None else (entry.target_epsilon,))
    keys: dict[int, Key] = {}
    for place, (entry, one) in enumerate(zip(entries, outcomes, strict=True)):
        if is_utility(metric) and one.ok and kind(one) in RANKS and one.guarantee.rigorous.epsilon > 0:
            within = budget(one.guarantee.rigorous.epsilon, targets[entry.task_id])
            keys[place] = (entry.task_id, kind(one), within, *promise(one))
    cells, values = [entries[place].cell.slug for place in keys], [outcomes[place].values for place in keys]
    found = dict(zip(keys, ranked(list(keys.values()), cells, values, alone=""), strict=True))
    return [found.get(place, "") for place in range(len(entries))]


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of accuracies."""
    frame = accuracy_table(plan, artefact_id, results)
    shown = chance.shown_as(plan.artefacts[artefact_id])
    printed = plan.experiments[artefact_id.split("/")[0]].published != "none"
    return MadeTable(frame, accuracy_display(heading(plan, artefact_id), frame, shown, printed))


def accuracy_display(title: str, table: pd.DataFrame, shown: Quantity, printed: bool = True) -> Table:
    """Lay out the rows of `accuracy_table`, a block per task; the quantity heads the values.

    `printed`: whether the experiment is a paper's that prints numbers, for which there are columns.
    """
    notes = Footnotes()
    tested = "above_chance" in table
    blocks = display.by_task(
        table,
        lambda row: [
            *_accuracy_cells(row, notes),
            *(_printed_cells(row) if printed else ()),
            *[Text(row.get("above_chance") or DASH)] * tested,
        ],
    )
    levels, ranks = display.reference_remarks(table, shown), [REMARK] * bool(table["rank"].any())
    values = "Values: mean ± sample standard deviation over the seeds."
    minus = " Difference: ours minus the paper’s"
    remarks = [
        values + f"{minus}{shown.difference and f', in {shown.difference}'}." * printed,
        *levels,
        "Target ε: proved; claimed for the paper’s mechanism.",
        display.EPSILON_REMARK + " Paper’s ε: as printed (in brackets: proved for that run)." * printed,
        *(*ranks, *protection.remarks(table), *[chance.REMARK] * tested),
    ]
    brief = [
        values
        + f"{minus}." * printed
        + " ε claimed: by the paper’s formula; ε proved: by a theorem; none: no guarantee.",
        *(*levels, *ranks, *protection.brief(table), *[chance.REMARK] * tested),
    ]
    columns = ["Method", "Target ε", shown.label[0].upper() + shown.label[1:], "Seeds", *display.EPSILON_HEADS]
    if printed:
        columns += [f"Paper ({shown.unit})" if shown.unit else "Paper", "Paper’s ε (proved)", "Difference"]
    return Table(title, [*columns, *[chance.HEAD] * tested], blocks, notes.texts, remarks, brief=brief)


def _accuracy_cells(row: dict, notes: Footnotes) -> list[Text]:
    return [
        Text(row["label"], (notes.number(row["fallback"]),) if row["fallback"] else ()),
        display.target_cell(row),
        Text(formats.mean_std(row["mean"], row["std"]), bold=bool(row["rank"]))
        if row["status"] == "ok"
        else display.failure(row, notes),
        display.seeds_cell(row, notes),
        *display.epsilon_cells(row, notes),
    ]


def _printed_cells(row: dict) -> list[Text]:
    printed = bool(row["published_text"])
    return [
        Text(row["published_text"] if printed else display.NOT_IN_PAPER),
        Text(_printed_epsilon(row) if printed else DASH),
        Text(formats.difference(row["difference"])),
    ]


def _printed_epsilon(row: dict) -> str:
    if row["published_epsilon"] == "inf":
        return "∞"
    return f"{row['published_epsilon'] or 'not printed'} ({row['published_epsilon_rigorous']})"


PRESENCE_REMARK = (
    "Values: lower bounds of ε at 99 % confidence, from one run in which a fair coin decided whether each canary "
    "record is present (Steinke et al. 2023). The attacker sees only the predicted classes of nodes that list a "
    "canary; it guesses “present” the more of them name the canary’s class. An ε with scope parameters does not cover "
    "this view. A bound of 0 does not prove that predictions are private."
)


def make_presence(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of lower bounds of epsilon from the presence of canaries."""
    made = make(plan, artefact_id, results)
    made.table.remarks.insert(0, PRESENCE_REMARK)
    return made
