"""What methods expose of their training nodes (problems/node_classification/exposure.py), by entry of an artefact."""

from __future__ import annotations

from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import Entry, Plan
from dpgraph.problems.node_classification.exposure import Exposure
from dpgraph.reporting.results import EntryResult, Results

NO_EXPOSURE = "nothing is exposed: the method offers nothing, or the files of the seeds are not there"


def exposed(plan: Plan, entry: Entry, results: Results, first: bool = False) -> tuple[EntryResult, list[Exposure]]:
    """Of the entry's good seeds, in their order, or of the first one; the result states why there are none."""
    outcome = results.outcome(entry, plan.artefacts[entry.artefact].metric)
    seeds = [int(seed) for seed in outcome.values.index][: 1 if first else None]
    paths = [Paths(plan.config).exposure(entry.cell, seed) for seed in seeds]
    if outcome.ok and not all(path.is_file() for path in paths):
        return EntryResult.not_run(NO_EXPOSURE), []
    return outcome, [Exposure.load(path) for path in paths]
