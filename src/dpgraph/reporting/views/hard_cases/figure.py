"""A figure of hard cases: over the values of a sweep, or over epsilon."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.views.hard_cases.table import hard_case_remark
from dpgraph.reporting.views.privacy_utility.figure import draw as draw_over_epsilon
from dpgraph.reporting.views.sweep.figure import draw as draw_over_values


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """As the figure of its kind, with what a hard case is beside it."""
    kind = draw_over_epsilon if plan.artefacts[artefact_id].sweep is None else draw_over_values
    return kind(plan, artefact_id, results, hard_case_remark(plan, artefact_id))
