"""Where the spread of a crossed design comes from, in long form: a row per entry, and a row per run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.experiments.streams import initialisation_number, split_number
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import beside, described
from dpgraph.reporting.results import EntryResult, Results
from dpgraph.reporting.views.variance.components import (
    Components,
    Estimate,
    Parts,
    components,
    one_split_error,
    pairs_error,
    stated_error,
)

PARTS = ("split", "initialisation", "rest")
PAIRS = (3, 5, 10)  # runs of a mean, whose standard errors the table gives
TOO_FEW = "fewer than two splits of which every run ended well"


@dataclass(frozen=True)
class Crossed:
    """One entry: (splits, initialisations) values of the whole splits, in the unit that is shown."""

    entry: Entry
    outcome: EntryResult
    values: pd.DataFrame
    components: Components | None  # None where `outcome` is not ok


def crossed(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Crossed]:
    """One per entry of the artefact, in its order. A split of which a run is missing is left out as a whole."""
    known = Results.of(results)
    return [_crossed(entry, known.outcome(entry, plan.artefacts[artefact_id].metric))
            for entry in plan.entries_of(artefact_id)]  # fmt: skip


def _crossed(entry: Entry, outcome: EntryResult) -> Crossed:
    if not outcome.ok:
        return Crossed(entry, outcome, pd.DataFrame(), None)
    seeds = [int(seed) for seed in outcome.values.index]
    every = pd.DataFrame(
        {
            "split": [split_number(entry.cell, seed) for seed in seeds],
            "initialisation": [initialisation_number(entry.cell, seed) for seed in seeds],
            "value": outcome.shown,
        }
    ).pivot(index="split", columns="initialisation", values="value")
    whole = every.reindex(columns=range(entry.cell.seeds_per_split or 1)).dropna()
    if len(whole) < 2:
        return Crossed(entry, EntryResult.not_run(TOO_FEW), pd.DataFrame(), None)
    return Crossed(entry, outcome, whole, components(whole.to_numpy()))


def variance_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per entry. `sd_*`, `share_*` (percent) and the standard errors have intervals `*_low` and `*_high`.

    Standard deviations and errors are in points. Of n runs, `se_pairs_n` is the error of the mean where each has a
    split and an initialisation of its own; `se_stated_n` is what n runs on one split state, `se_one_split_n` what
    their mean has as an estimate for any split. `raw_*`: variances before what is below 0 is set to 0.
    """
    rows = []
    for one in crossed(plan, artefact_id, results):
        made = {} if one.components is None else dict(_columns(one.components))
        rows.append(described(one.entry, one.outcome) | {"cell": one.entry.cell.slug} | made)
    return pd.DataFrame(rows)


def _columns(of: Components) -> Iterator[tuple[str, Any]]:
    yield from {"mean": of.mean, "mean_error": of.mean_error}.items()
    yield from {"splits": of.splits, "initialisations": of.initialisations}.items()
    for index, part in enumerate(PARTS):
        yield f"mean_square_{part}", of.sums[index] / of.degrees[index]
        yield f"raw_{part}", float(getattr(of.raw, part))
    for part in PARTS:
        yield from _interval(f"sd_{part}", of.estimate(partial(_deviation, name=part)))
        yield from _interval(f"share_{part}", share_of(of, part))
    for n in PAIRS:
        for name, error in (("pairs", pairs_error), ("stated", stated_error), ("one_split", one_split_error)):
            yield from _interval(f"se_{name}_{n}", of.estimate(partial(error, n=n)))


def share_of(of: Components, part: str) -> Estimate:
    """Of the variance of one run, in percent; nan where all runs agree."""
    return of.estimate(lambda parts: parts.share(getattr(parts, part)))


def _deviation(parts: Parts, name: str) -> np.ndarray:
    return np.sqrt(getattr(parts, name))


def _interval(name: str, estimate: Estimate) -> Iterator[tuple[str, float]]:
    yield name, estimate.value
    yield f"{name}_low", estimate.low
    yield f"{name}_high", estimate.high


def variance_points(runs: list[Crossed]) -> pd.DataFrame:
    """What the figure shows: a row per run, with `value`, its `deviation` from the mean, and the entry's shares."""
    parts = []
    for one in runs:
        head: dict[str, Any] = described(one.entry, one.outcome) | {"source": "ours"}
        long = pd.DataFrame([{"split": math.nan, "initialisation": math.nan, "value": math.nan}])
        if one.components is not None:
            long = one.values.reset_index().melt("split", value_name="value")
            head |= {name: value for name, value in _columns(one.components) if name.startswith("share_")}
            long["deviation"] = long["value"] - one.components.mean
        parts.append(beside(head, long))
    return pd.concat(parts, ignore_index=True)
