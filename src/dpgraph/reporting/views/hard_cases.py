"""Figures of hard cases: over the values of a sweep, or over epsilon."""

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.views.privacy_utility import draw as draw_over_epsilon
from dpgraph.reporting.views.sweep.figure import draw as draw_over_values


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw as a sweep or over epsilon; the caption says which nodes are hard cases."""
    kind = draw_over_epsilon if plan.artefacts[artefact_id].sweep is None else draw_over_values
    return kind(plan, artefact_id, results, hard_case_remark(plan, artefact_id))


def hard_case_remark(plan: Plan, artefact_id: str) -> str:
    """Return what a hard case is, as a sentence of the caption."""
    artefact = plan.artefacts[artefact_id]
    methods = plan.experiments[artefact_id.split("/")[0]].methods
    names = dict.fromkeys(methods[str(artefact.reference_of(method))].label for method in artefact.methods)
    at = "" if artefact.reference_value is None else f" at {artefact.reference_value}"
    return (
        f"Hard cases: test nodes that {' or '.join(names)}{at} misclassifies with the same seed. That method itself is "
        "compared with its next seed, since it misclassifies all of its own hard cases. A run with independent errors "
        "misclassifies as large a share of hard cases as of all test nodes."
    )
