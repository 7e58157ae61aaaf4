"""Accuracy by the values of one hyper-parameter, in long form: ours and the paper's, and what privacy costs at each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import counterparts
from dpgraph.reporting.formats import printed_place
from dpgraph.reporting.paper_values import paper_gap, paper_values
from dpgraph.reporting.views.accuracy.rows import accuracy_table

GAP_COLUMNS = ("gap_reference", "gap", "gap_error", "gap_published", "gap_difference")


def sweep_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Rows of `accuracy_table`, and for a private method next to its counterpart without privacy the gap.

    `gap` is accuracy(without privacy) - accuracy(private) at the same value, in points, as Daigavane et al. print it in
    Tables 5 and 6; `gap_error` its standard error over seeds; `gap_difference` ours minus the printed one. The
    counterpart is the artefact's method without privacy of the same architecture and number of hops.
    """
    table = accuracy_table(plan, artefact_id, results)
    entries = plan.entries_of(artefact_id)
    places = {(entry.method_id, entry.task_id, entry.value): row for row, entry in enumerate(entries)}
    references = counterparts(entries)
    gaps = []
    for row, entry in enumerate(entries):
        other = places.get((references.get(entry.method_id, ""), entry.task_id, entry.value))
        if other is None:
            gaps.append(dict.fromkeys(GAP_COLUMNS, math.nan) | {"gap_reference": ""})
        else:
            gaps.append(_gap(plan, entries[other], entry, table.loc[other].to_dict(), table.loc[row].to_dict()))
    return pd.concat([table, pd.DataFrame(gaps, columns=list(GAP_COLUMNS))], axis=1)


def _gap(plan: Plan, reference: Entry, private: Entry, one: Mapping[str, Any], two: Mapping[str, Any]) -> dict:
    artefact = plan.artefacts[private.artefact]
    table = artefact.tables(private.artefact.split("/")[1])[0]
    printed = paper_gap(plan.experiments[private.paper], reference, private, table)
    gap = one["mean"] - two["mean"]
    return {
        "gap_reference": reference.method_id,
        "gap": gap,
        "gap_error": math.sqrt(one["std"] ** 2 / one["n"] + two["std"] ** 2 / two["n"])
        if one["n"] and two["n"]
        else math.nan,
        "gap_published": float(printed) if printed else math.nan,
        "gap_difference": gap - float(printed) if printed else math.nan,
    }


def as_number(value: str) -> float | None:
    """The number that a sweep's value is called, None for a word.

    >>> as_number("10,000"), as_number("full")
    (10000.0, None)
    """
    try:
        number = float(value.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def sweep_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """What a sweep's figure shows: `sweep_table` with source ours, and a row per printed number next to it.

    A number that the paper prints several times, or that belongs to several methods, appears once for each epsilon.
    """
    table = sweep_table(plan, artefact_id, results).assign(source="ours")
    metric = plan.artefacts[artefact_id].metric
    printed = []
    for row, entry in zip(table.to_dict("records"), plan.entries_of(artefact_id)):
        for value in paper_values(plan.experiments[entry.paper], entry, metric):
            own = {"source": f"paper's {printed_place(value.table)}", "status": "printed", "reason": "", "n": 0}
            own |= {"mean": value.value, "std": math.nan if value.std is None else value.std}
            own |= {"ci_low": math.nan, "ci_high": math.nan}
            if row["variant"] != "none":
                own["eps_rigorous"] = math.nan  # of the paper's run nothing is proved
                own |= dict.fromkeys(("relation_rigorous", "scope_rigorous"), "none")
            own |= {"published_unmet": "", "uncovered": ""}  # of our run
            printed.append({**row, **own})
    beside = pd.DataFrame(printed, columns=table.columns).drop_duplicates(
        ["task", "value", "epsilon_target", "mean", "std"]
    )
    return pd.concat([table, beside.astype(table.dtypes)], ignore_index=True) if printed else table
