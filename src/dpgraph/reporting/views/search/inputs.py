"""Reads the records of its own cells: no other cell of the suite need have run."""

from __future__ import annotations

from typing import Any

from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import Plan
from dpgraph.reporting.views.registry import Inputs, Source


def _aggregated(plan: Plan, artefact_id: str) -> Any:
    from dpgraph.reporting.views.search.rows import search_results

    return search_results(plan, artefact_id, Paths(plan.config).table(artefact_id, "parquet"))


INPUTS = Inputs((Source.CELLS,), _aggregated)
