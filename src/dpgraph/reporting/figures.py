"""A figure of a paper, regenerated: PDF, SVG and PNG with the same bytes on every run, and its points as CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dpgraph.errors import invalid
from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import artefact_of
from dpgraph.reporting.class_wise import class_counts, class_wise_points
from dpgraph.reporting.class_wise_figure import class_wise_figure
from dpgraph.reporting.confusion import confusion_points, confusions
from dpgraph.reporting.confusion_figure import confusion_figure
from dpgraph.reporting.embedding import embedded, embedding_points
from dpgraph.reporting.embedding_figure import embedding_figure
from dpgraph.reporting.membership import attacks, membership_points
from dpgraph.reporting.membership_figure import membership_figure
from dpgraph.reporting.privacy_figure import privacy_utility_figure
from dpgraph.reporting.privacy_utility import privacy_utility_points
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.sweep import sweep_points
from dpgraph.reporting.sweep_figure import sweep_figure

Writer = Callable[[Plan, str, pd.DataFrame | None, Path], list[Path]]


def write_figure(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg, stem.png and stem.csv (the plotted points).

    Raises UserError where the artefact is no figure of the plan, or its view draws none.
    """
    view = artefact_of(plan, artefact_id, "figure").view
    if view not in VIEWS:
        raise invalid(f"{artefact_id}: view", view, f"one of {', '.join(VIEWS)} for a figure")
    return VIEWS[view](plan, artefact_id, results, stem)


def _privacy_utility(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    points = privacy_utility_points(plan, artefact_id, results)
    return [*privacy_utility_figure(plan, artefact_id, points, stem), _points(points, stem)]


def _sweep(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    points = sweep_points(plan, artefact_id, results)
    return [*sweep_figure(plan, artefact_id, points, stem), _points(points, stem)]


def _hard_cases(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    """Over the values of a sweep, or over epsilon."""
    draw = _privacy_utility if plan.artefacts[artefact_id].sweep is None else _sweep
    return draw(plan, artefact_id, results, stem)


def _class_wise(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    counts = class_counts(plan, artefact_id)
    points = class_wise_points(plan, artefact_id, results, counts)
    return [*class_wise_figure(plan, artefact_id, points, stem), _points(points, stem)]


def _confusion(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    found = confusions(plan, artefact_id, results)
    return [*confusion_figure(plan, artefact_id, found, stem), _points(confusion_points(found), stem)]


def _embedding(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    found = embedded(plan, artefact_id, results)
    return [*embedding_figure(plan, artefact_id, found, stem), _points(embedding_points(found), stem)]


def _membership(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> list[Path]:
    made = attacks(plan, artefact_id, results)
    return [*membership_figure(plan, artefact_id, made, stem), _points(membership_points(made), stem)]


def _points(points: pd.DataFrame, stem: Path) -> Path:
    path = stem.with_name(f"{stem.name}.csv")
    write_csv(points, path)
    return path


VIEWS: dict[str, Writer] = {
    "privacy-utility": _privacy_utility,
    "sweep": _sweep,
    "class-wise": _class_wise,
    "hard-cases": _hard_cases,
    "confusion": _confusion,
    "embedding": _embedding,
    "membership": _membership,
}
