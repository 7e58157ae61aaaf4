"""A figure of hard cases: over the values of a sweep, or over epsilon."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.views.hard_cases.table import hard_case_remark
from dpgraph.reporting.views.privacy_utility import figure as over_epsilon
from dpgraph.reporting.views.sweep import figure as over_values


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, stem: Path) -> Drawn:
    """From results, see `drawn_from`."""
    return drawn_from(plan, artefact_id, points_of(plan, artefact_id, results), stem)


def points_of(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    return _kind(plan, artefact_id).points_of(plan, artefact_id, results)  # type: ignore[no-any-return]


def drawn_from(plan: Plan, artefact_id: str, points: pd.DataFrame, stem: Path) -> Drawn:
    """As the figure of its kind, with what a hard case is beside it."""
    remark = hard_case_remark(plan, artefact_id)
    return _kind(plan, artefact_id).drawn_from(plan, artefact_id, points, stem, remark)  # type: ignore[no-any-return]


def _kind(plan: Plan, artefact_id: str) -> ModuleType:
    return over_epsilon if plan.artefacts[artefact_id].sweep is None else over_values
