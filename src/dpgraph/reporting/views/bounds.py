"""Figures of bounds for relational learning: Rényi divergence of one step by order, epsilon by steps."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpgraph.engine.methods.looks import BLACK, BLUE, VERMILION
from dpgraph.families.registry import declared
from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing import canvas
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.formats import deltas

LOOKS: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-"},
    {"color": VERMILION, "linestyle": (0, (4, 1))},
    {"color": BLACK, "linestyle": (0, (1.5, 1))},
)
HEIGHT = 1.9  # inches of a panel

ORDERS = tuple(float(order) for order in np.linspace(1.5, 12, 22))
STEPS = tuple(int(count) for count in np.unique(np.logspace(0, 4, 25).round()))
RDP, EPSILON = "rdp", "epsilon"


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw from `bounds_points`."""
    bounds, points = _bounds(), bounds_points(plan, artefact_id)
    looks = dict(zip(bounds.BOUNDS, LOOKS, strict=True))
    handles = {name: Line2D([], [], **look) for name, look in looks.items()}
    labels = list(plan.artefacts[artefact_id].bounds)
    titles = [label for label in labels for _ in (RDP, EPSILON)]
    figure, grid, _ = canvas.panelled(titles, handles, plan.suite.demonstration, height=HEIGHT)
    for index, label in enumerate(labels):
        for quantity, axes in zip((RDP, EPSILON), grid[2 * index : 2 * index + 2]):
            rows = points[(points["settings"] == label) & (points["quantity"] == quantity)]
            for bound, look in looks.items():
                own = rows[(rows["bound"] == bound) & np.isfinite(rows["value"])]
                axes.plot(own["x"], own["value"], **look)
            _axes(axes, quantity, bounds.DELTA)
    about = filter(None, [plan.artefacts[artefact_id].caption])
    return Drawn(figure, points, [f"{bounds.PREMISE}. {bounds.WHERE}.", *about])


def _bounds() -> Any:
    """Return what the family that compares bounds declares: their names, parameters and formulas."""
    return declared("reported.py", "VIEWS")["bounds"]


def _axes(axes: Axes, quantity: str, delta: float) -> None:
    axes.set_yscale("log")
    if quantity == RDP:
        axes.set_xlabel("Rényi order α")
        canvas.y_label(axes, "Rényi divergence of one step")
        return
    axes.set_xscale("log")
    axes.set_xlabel("steps")
    canvas.y_label(axes, f"ε at δ = {deltas([delta])[0]}")


def bounds_points(plan: Plan, artefact_id: str) -> pd.DataFrame:
    """`quantity` rdp along orders, of one step, or epsilon along steps, at `delta`."""
    bounds, rows = _bounds(), []
    columns = ("settings", *bounds.DEFAULTS, "bound", "quantity", "along", "x", "value", "delta")
    for label, changed in plan.artefacts[artefact_id].bounds.items():
        at = {**bounds.DEFAULTS, **changed.model_dump(exclude_none=True)}
        along_both = (
            ({"quantity": RDP, "along": "order"}, ORDERS, bounds.rdp_of_a_step(at, ORDERS)),
            ({"quantity": EPSILON, "along": "steps", "delta": bounds.DELTA}, STEPS, bounds.epsilon_after(at, STEPS)),
        )
        for about, places, by_bound in along_both:
            for bound, values in by_bound.items():
                shared = {"settings": label, **at, "bound": bound, **about}
                rows += [shared | {"x": float(x), "value": value} for x, value in zip(places, values, strict=True)]
    return pd.DataFrame(rows, columns=list(columns))
