"""t-SNE of the embeddings of training roots (Zhang, Figures 5.6 and 5.7): one seed, the first one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import beside, described
from dpgraph.reporting.results import EntryResult, Results
from dpgraph.reporting.stored import NO_EXPOSURE
from dpgraph.reporting.views.embedding.derived import EMBEDDING, NOWHERE, PARTS


@dataclass(frozen=True)
class Embedded:
    """Of one entry. `places` (M, 2) and `classes` (M,), without node ids, are empty where `outcome` is not ok."""

    entry: Entry
    outcome: EntryResult
    seed: int
    places: np.ndarray
    classes: np.ndarray


EMPTY = -1, NOWHERE, np.zeros(0, dtype=np.int64)


def embedded(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Embedded]:
    """One per entry of the artefact, in its order."""
    known, metric = Results.of(results), plan.artefacts[artefact_id].metric
    return [_embedded(entry, known, known.outcome(entry, metric)) for entry in plan.entries_of(artefact_id)]


def _embedded(entry: Entry, known: Results, outcome: EntryResult) -> Embedded:
    if not outcome.ok:
        return Embedded(entry, outcome, *EMPTY)
    parts = known.parts(entry, EMBEDDING)
    if not parts:
        return Embedded(entry, EntryResult.not_run(known.reason_of(entry, EMBEDDING) or NO_EXPOSURE), *EMPTY)
    x, y, classes = (parts[name].sort_values("class_id")["value"].to_numpy(float) for name in PARTS)
    return Embedded(entry, outcome, int(parts["x"]["seed"].iloc[0]), np.stack([x, y], axis=1), classes.astype(np.int64))


def embedding_points(made: list[Embedded]) -> pd.DataFrame:
    """A row per root with its place and class; one without where there are none."""
    parts = []
    for one in made:
        rows = pd.DataFrame({"x": one.places[:, 0], "y": one.places[:, 1], "class_id": one.classes})
        if rows.empty:
            rows = pd.DataFrame({"x": [math.nan], "y": math.nan, "class_id": -1})
        parts.append(beside(described(one.entry, one.outcome) | {"seed": one.seed}, rows))
    return pd.concat(parts, ignore_index=True)
