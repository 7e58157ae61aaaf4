"""What a gallery shows: of each task a training image of each class, of each run what was reconstructed of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.errors import DataUnavailable, UserError
from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import Entry, Plan
from dpgraph.problems.images.inversion import BY_CLASS, Inversion
from dpgraph.problems.images.value import Images, load_images
from dpgraph.reporting.artefacts import beside, described, of_entry
from dpgraph.reporting.results import EntryResult, Results

MOST_CLASSES = 10  # in a row
NO_RECONSTRUCTION = "the reconstructions are not there: train the cell again"


@dataclass(frozen=True)
class Attacked:
    """One run of the first seed: `images` (classes, F), None where `outcome` says why; distances by class."""

    entry: Entry
    outcome: EntryResult
    accuracy: float  # of the seed, in percent
    images: np.ndarray | None
    distances: dict[int, float]


def shown_images(plan: Plan, task_id: str) -> Images | None:
    """None: the images are not there."""
    try:
        return load_images(Paths(plan.config).graph(plan.task(task_id)))
    except (DataUnavailable, UserError):
        return None


def samples(value: Images) -> dict[int, np.ndarray]:
    """(F,) the first training image of each of the first `MOST_CLASSES` classes that have one."""
    train, labels = value.train_nodes, np.asarray(value.labels)
    numbers, first = np.unique(labels[train], return_index=True)
    kept = [(int(number), train[at]) for number, at in zip(numbers, first, strict=True) if number >= 0]
    return {number: np.asarray(value.features[node]) for number, node in kept[:MOST_CLASSES]}


def attacked(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Attacked]:
    """One per entry: without a target first, then by falling target epsilon, in the artefact's order of methods."""
    known, metric = Results.of(results), plan.artefacts[artefact_id].metric
    order = list(plan.artefacts[artefact_id].methods)
    entries = sorted(
        plan.entries_of(artefact_id), key=lambda one: (order.index(one.method_id), -(one.epsilon or math.inf))
    )
    return [_attacked(plan, entry, known, metric) for entry in entries]


def _attacked(plan: Plan, entry: Entry, known: Results, metric: str) -> Attacked:
    outcome = known.outcome(entry, metric)
    if not outcome.ok:
        return Attacked(entry, outcome, math.nan, None, {})
    seed = int(outcome.values.index[0])
    path = Paths(plan.config).exposure(entry.cell, seed)
    if not path.is_file():
        return Attacked(entry, EntryResult.not_run(NO_RECONSTRUCTION), math.nan, None, {})
    by_class = known.by_class(entry, BY_CLASS + metric)
    distances = {int(number): float(by_class.loc[seed, number]) for number in by_class}
    accuracy = known.outcome(entry, "accuracy/test").shown_by_seed.get(seed, math.nan)
    return Attacked(entry, outcome, float(accuracy), Inversion.load(path).images, distances)


def gallery_points(made: list[Attacked]) -> pd.DataFrame:
    """A row per run and class with its distance: no pixel."""
    parts = []
    for one in made:
        rows = pd.DataFrame(
            [{"class_id": number, "distance": value} for number, value in one.distances.items()]
            or [{"class_id": -1, "distance": math.nan}]
        )
        head = described(one.entry, one.outcome) | {"value": of_entry(one.entry, "value")["value"]}
        parts.append(beside(head | {"accuracy": one.accuracy}, rows))
    return pd.concat(parts, ignore_index=True)
