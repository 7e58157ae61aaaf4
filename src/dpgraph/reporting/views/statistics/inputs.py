"""Reads graphs alone."""

from __future__ import annotations

from typing import Any

from dpgraph.experiments.paths import Paths
from dpgraph.files import read_json
from dpgraph.planning.plan import Plan
from dpgraph.reporting.views.registry import Inputs, Source


def _statistics(plan: Plan, artefact_id: str) -> dict[str, Any]:
    """By task id, graph.json."""
    paths = Paths(plan.config)
    return {name: read_json(paths.graph_record(task)) for name, (_, task) in plan.tasks_of(artefact_id).items()}


INPUTS = Inputs((Source.GRAPHS,), _statistics)
