"""Tables of sweeps: for each value ours, both epsilons, the paper's number, and the cost of privacy."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import chance, display, formats, protection
from dpgraph.reporting.artefacts import counterparts, heading
from dpgraph.reporting.display import DASH, Footnotes, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.formats import printed_place
from dpgraph.reporting.paper_values import paper_gap, paper_values
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.results import Results
from dpgraph.reporting.views.accuracy.table import accuracy_table

GAP_COLUMNS = ("gap_reference", "gap", "gap_error", "gap_published", "gap_difference")


def sweep_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return the rows of `accuracy_table`, with the gap of a private method to its counterpart without privacy.

    `gap` is accuracy(without privacy) - accuracy(private) at the same value, in points, as Daigavane et al. print it in
    Tables 5 and 6, averaged over the seeds that both have; `gap_error` is its standard error over them (paired),
    `gap_difference` ours minus the printed one. The counterpart is the artefact's method without privacy of the same
    architecture and number of hops.
    """
    table = accuracy_table(plan, artefact_id, results)
    known, entries = Results.of(results), plan.entries_of(artefact_id)
    places = {(entry.method_id, entry.task_id, entry.value): entry for entry in entries}
    references = counterparts(entries)
    gaps = []
    for entry in entries:
        other = places.get((references.get(entry.method_id, ""), entry.task_id, entry.value))
        if other is None:
            gaps.append(dict.fromkeys(GAP_COLUMNS, math.nan) | {"gap_reference": ""})
        else:
            gaps.append(_gap_columns(plan, known, other, entry))
    return pd.concat([table, pd.DataFrame(gaps, columns=list(GAP_COLUMNS))], axis=1)


def _gap_columns(plan: Plan, known: Results, reference: Entry, private: Entry) -> dict[str, Any]:
    artefact = plan.artefacts[private.artefact]
    table = artefact.tables(private.artefact.split("/")[1])[0]
    printed = paper_gap(plan.experiments[private.paper], reference, private, table)
    gap = known.outcome(reference, artefact.metric).minus(known.outcome(private, artefact.metric))
    return {
        "gap_reference": reference.method_id,
        "gap": gap.mean,
        "gap_error": gap.std / math.sqrt(gap.n) if gap.n else math.nan,
        "gap_published": float(printed) if printed else math.nan,
        "gap_difference": gap.mean - float(printed) if printed else math.nan,
    }


def as_number(value: str) -> float | None:
    """Return a value of a sweep as a number, None for a word.

    >>> as_number("10,000"), as_number("full")
    (10000.0, None)
    """
    try:
        number = float(value.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def sweep_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return the points of a sweep's figure: `sweep_table` with source ours, and a row per printed number.

    A number that the paper prints several times, or for several methods, appears once for each epsilon.
    """
    table = sweep_table(plan, artefact_id, results).assign(source="ours")
    metric = plan.artefacts[artefact_id].metric
    printed = []
    for row, entry in zip(table.to_dict("records"), plan.entries_of(artefact_id)):
        for value in paper_values(plan.experiments[entry.paper], entry, metric):
            own = {"source": f"paper's {printed_place(value.table)}", "status": "printed", "n": 0}
            own |= {"mean": value.value, "std": math.nan if value.std is None else value.std}
            own |= {"ci_low": math.nan, "ci_high": math.nan}
            if row["variant"] != "none":
                own["eps_rigorous"] = math.nan  # the paper's run has no proved epsilon
                own |= dict.fromkeys(("relation_rigorous", "scope_rigorous"), "none")
            own |= dict.fromkeys(("reason", "published_unmet", "uncovered"), "")  # these describe our run
            printed.append({**row, **own})
    paper = pd.DataFrame(printed, columns=table.columns).drop_duplicates(
        ["task", "value", "epsilon_target", "mean", "std"]
    )
    return pd.concat([table, paper.astype(table.dtypes)], ignore_index=True) if printed else table


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make the table of a sweep."""
    frame, artefact = sweep_table(plan, artefact_id, results), plan.artefacts[artefact_id]
    parameter = artefact.sweep.label if artefact.sweep is not None else ""
    return MadeTable(frame, sweep_display(heading(plan, artefact_id), frame, chance.shown_as(artefact), parameter))


def sweep_display(title: str, table: pd.DataFrame, shown: Quantity, parameter: str) -> Table:
    """Lay out the rows of `sweep_table`: columns are methods, `parameter` heads the values."""
    notes = Footnotes()
    methods = dict(zip(table["method"], table["label"]))
    blocks = [
        _block(part, target, list(methods), notes)
        for _, part in table.groupby("task", sort=False)
        for target in (sorted(part["epsilon_target"].dropna().unique()) or [math.nan])
    ]
    has_gap = bool(table["gap"].notna().any())
    gap = " Gap: without privacy minus private, at the same value, ± its standard error, paired by seed." * has_gap
    remarks = [
        f"Ours: {shown.label}, mean ± sample standard deviation over the seeds (how many).{gap} In brackets: ours "
        f"minus the paper’s{shown.difference and f', in {shown.difference}'}.",
        *display.reference_remarks(table, shown),
        display.EPSILON_REMARK,
        *protection.remarks(table),
        *[chance.REMARK] * ("above_chance" in table),
    ]
    return Table(title, [parameter, "", *methods.values()], blocks, notes.texts, remarks, text_columns=2)


def _block(part: pd.DataFrame, target: float, methods: list[str], notes: Footnotes) -> RowGroup:
    part = part[part["epsilon_target"].isna() | (part["epsilon_target"] == target)]
    label = str(part["task_label"].iloc[0])
    title = label if math.isnan(target) else f"{label}, target ε = {formats.significant(target)}"
    protected = _same_protection(part, methods)
    rows = [] if protected is None else _protection(protected)
    # by number, words after them as the suite lists them: several grids of a suite may each have some of the values
    for value, at in sorted(part.groupby("value", sort=False), key=lambda group: _order(str(group[0]))):
        by_method = {row["method"]: row for row in at.to_dict("records")}
        line = [by_method.get(method) for method in methods]
        rows.append([Text(str(value)), Text("ours"), *(_ours(row, notes) for row in line)])
        if "above_chance" in part:
            rows.append(
                [Text(""), Text(chance.HEAD), *(Text(row["above_chance"] or DASH if row else DASH) for row in line)]
            )
        rows.append([Text(""), Text("ε claimed / proved"), *(_epsilons(row, notes) for row in line)])
        if protected is None:
            rows += _protection(line)
        if any(row and row["published_text"] for row in line):
            rows.append([Text(""), Text("paper’s"), *map(_printed, line)])
        if any(row and not math.isnan(row["gap"]) for row in line):
            rows.append([Text(""), Text("gap"), *map(_gap, line)])
        if any(row and not math.isnan(row["gap_published"]) for row in line):
            rows.append([Text(""), Text("paper’s gap"), *map(_printed_gap, line)])
    return RowGroup(display.with_delta(title, part), rows)


def _protection(line: Sequence[dict | None]) -> list[list[Text]]:
    """Return rows with relation and scope of each method's epsilons."""
    return [
        [Text(""), Text(name), *(Text(DASH if row is None else protection.both(row, name)) for row in line)]
        for name in ("relation", "scope")
    ]


def _same_protection(part: pd.DataFrame, methods: list[str]) -> list[dict | None] | None:
    """Return a row of each method if its rows agree on relation and scope; None if they do not."""
    agreed: list[dict | None] = []
    for method in methods:
        rows = [row for row in part[part["method"] == method].to_dict("records") if row["relation_rigorous"]]
        if len({tuple(protection.both(row, name) for name in ("relation", "scope")) for row in rows}) > 1:
            return None
        agreed.append(rows[0] if rows else None)
    return agreed


def _order(value: str) -> tuple[bool, float]:
    number = as_number(value)
    return number is None, number or 0.0


def _ours(row: dict | None, notes: Footnotes) -> Text:
    if row is None:
        return Text(DASH)
    if row["status"] != "ok":
        return display.failure(row, notes)
    planned = "" if row["n"] == row["n_planned"] else f" of {row['n_planned']}"
    text = f"{formats.mean_std(row['mean'], row['std'])} ({row['n']}{planned})"
    return Text(text, (notes.number(row["reason"]),) if row["reason"] else ())


def _epsilons(row: dict | None, notes: Footnotes) -> Text:
    if row is None:
        return Text(DASH)
    both = [display.epsilon_cell(row, mode, notes) for mode in ("published", "rigorous")]
    if all(cell.value == DASH for cell in both):
        return Text(DASH)
    return Text(" / ".join(cell.value for cell in both), tuple(note for cell in both for note in cell.notes))


def _printed(row: dict | None) -> Text:
    if row is None or not row["published_text"]:
        return Text(DASH)
    own = row["published_epsilon"] not in ("", "inf", "all") and math.isnan(row["epsilon_target"])
    at = f" at ε {row['published_epsilon']}" if own else ""
    return Text(row["published_text"] + at + formats.bracket(row["difference"]))


def _gap(row: dict | None) -> Text:
    if row is None or math.isnan(row["gap"]):
        return Text(DASH)
    return Text(formats.mean_std(row["gap"], row["gap_error"]).replace("-", "−"))


def _printed_gap(row: dict | None) -> Text:
    if row is None or math.isnan(row["gap_published"]):
        return Text(DASH)
    return Text(f"{row['gap_published']:.3f}" + formats.bracket(row["gap_difference"]))
