"""The floor of relation prediction: what is trained without privacy beside the entities' own vectors, untrained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.results import Results, Summary, summarise

ZERO_SHOT = "cosine"  # the method that trains nothing
METRIC, ON_TRAINED = "mrr/test", "mrr/train"


@dataclass(frozen=True)
class Floor:
    """Both in percent; nan, and `why` says for what reason, without results of both."""

    value: float
    difference: Summary  # seed by seed
    why: str = ""

    @property
    def below(self) -> bool:
        """Training did not pay."""
        return bool(self.difference.mean <= 0)


def floor_of(plan: Plan, results: Results, entry: Entry) -> Floor:
    """`why` of a result that is below, from the results alone: no difference that seeds show, or what was learnt on the
    tuples that were trained on does not help on those that are tested."""
    rivals = (
        other
        for other in plan.entries
        if (other.paper, other.task_id, other.cell.method) == (entry.paper, entry.task_id, ZERO_SHOT)
    )
    rival = next(rivals, None)
    test = _differences(results, entry, rival, METRIC)
    if rival is None or not len(test):
        return Floor(np.nan, summarise(test), f"no results of {ZERO_SHOT} with the same seeds")
    difference = summarise(test)
    value = 100 * float(results.outcome(rival, METRIC).values.loc[test.index].mean())
    return Floor(value, difference, _reason(difference, summarise(_differences(results, entry, rival, ON_TRAINED))))


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
    """By seed, those that both have."""
    ours = results.outcome(entry, metric).values
    if rival is None:
        return ours.iloc[:0]
    return (ours - results.outcome(rival, metric).values).dropna()
