"""A figure of hard cases: over the values of a sweep, or over epsilon."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.display import MadeTable
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.views.accuracy.table import make as of_methods
from dpgraph.reporting.views.privacy_utility import draw as draw_over_epsilon
from dpgraph.reporting.views.sweep.figure import draw as draw_over_values
from dpgraph.reporting.views.sweep.table import make as of_values


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    made = (of_methods if plan.artefacts[artefact_id].sweep is None else of_values)(plan, artefact_id, results)
    made.table.remarks.insert(0, hard_case_remark(plan, artefact_id))
    return made


def hard_case_remark(plan: Plan, artefact_id: str) -> str:
    """What a hard case is, for the foot of a figure or table."""
    artefact = plan.artefacts[artefact_id]
    methods = plan.experiments[artefact_id.split("/")[0]].methods
    names = dict.fromkeys(methods[str(artefact.reference_of(method))].label for method in artefact.methods)
    at = "" if artefact.reference_value is None else f" at {artefact.reference_value}"
    return (
        f"Hard cases: test nodes that {' or '.join(names)}{at} misclassifies with the same seed. That method’s own "
        "points are of the hard cases of its next seed, since it misclassifies all of its own. A run whose errors are "
        "independent of them misclassifies as large a share of hard cases as of all test nodes."
    )


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """As the figure of its kind, with what a hard case is beside it."""
    kind = draw_over_epsilon if plan.artefacts[artefact_id].sweep is None else draw_over_values
    return kind(plan, artefact_id, results, hard_case_remark(plan, artefact_id))
