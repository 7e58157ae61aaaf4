"""A figure of a paper, regenerated: PDF, SVG and PNG with the same bytes on every run, and its points as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import artefact_of
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.views.registry import figure_of


def write_figure(plan: Plan, artefact_id: str, given: Any, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg, stem.png and stem.csv (the plotted points) from what the view's inputs gave.

    Raises UserError where the artefact is no figure of the plan, or its view draws none.
    """
    draw = figure_of(artefact_id, artefact_of(plan, artefact_id, "figure").view)
    files, points = draw(plan, artefact_id, given, stem)
    path = stem.with_name(f"{stem.name}.csv")
    write_csv(points, path)
    return [*files, path]
