"""What the report's front page states about the suite. Imports nothing heavy: the Snakefile reads it on every start."""

from __future__ import annotations

from typing import Any

from dpgraph.planning.plan import Plan


def front_page(plan: Plan) -> dict[str, Any]:
    """What workflow/report/workflow.rst reads as `snakemake.config["about"]`."""
    return {
        "suite": plan.suite.name,
        "title": plan.suite.title,
        "note": " ".join(plan.suite.note.split()),
        "demonstration": plan.suite.demonstration,
        "papers": [f"{experiment.title} ({experiment.citation})" for experiment in plan.experiments.values()],
    }
