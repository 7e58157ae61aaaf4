"""By how much methods differ from a reference on each graph, beside the graph's mean degree and homophily."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import described
from dpgraph.reporting.results import EntryResult, Results, graph_facts, summarise

NO_GRAPH = "no statistics of the graph"


def gain_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry, those of the reference among them; `mean` is the mean over seeds of its value less the
    reference's on the same graph, of the same seed and target epsilon, and nan for the reference itself.

    A reference without privacy is that of every target. In points; `ci_low` and `ci_high` are the 95 % interval.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    references = {(one.task_id, one.epsilon): one for one in entries if one.method_id == artefact.reference}
    rows = []
    for entry in entries:
        outcome, own = known.outcome(entry, artefact.metric), entry.method_id == artefact.reference
        row: dict[str, Any] = described(entry, outcome) | {"source": "ours"}
        row |= _place(graph_facts(results, entry.cell.task))
        if not own:
            over = references.get((entry.task_id, entry.epsilon)) or references.get((entry.task_id, None))
            row |= _gain(outcome, MISSING if over is None else known.outcome(over, artefact.metric))
        if row["status"] == "ok" and math.isnan(row["mean_degree"]):
            row |= {"status": "not run", "reason": NO_GRAPH}
        rows.append({"mean": math.nan, "ci_low": math.nan, "ci_high": math.nan} | row)
    return pd.DataFrame(rows)


MISSING = EntryResult.not_run("no reference at this epsilon")


def _gain(outcome: EntryResult, reference: EntryResult) -> dict[str, Any]:
    """Of the seeds that both have."""
    worse = next((one for one in (outcome, reference) if not one.ok), None)
    if worse is not None:
        return {"n": 0, "status": worse.status, "reason": worse.reason}
    gains = (outcome.shown_by_seed - reference.shown_by_seed).dropna()
    found = summarise(gains.to_numpy(), scale=1.0)
    return {"n": found.n, "mean": found.mean, "ci_low": found.low, "ci_high": found.high}


def _place(facts: dict[str, Any]) -> dict[str, float]:
    return {name: facts.get(name, math.nan) for name in ("mean_degree", "homophily")}
