"""The long form: a row for each point of each bound, along orders (one step) and along steps (composed)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.relational_bounds import DEFAULTS, DELTA, epsilon_after, rdp_of_a_step

ORDERS = tuple(float(order) for order in np.linspace(1.5, 12, 22))
STEPS = tuple(int(count) for count in np.unique(np.logspace(0, 4, 25).round()))
COLUMNS = ("settings", *DEFAULTS, "bound", "quantity", "along", "x", "value", "delta")
RDP, EPSILON = "rdp", "epsilon"


def bounds_points(plan: Plan, artefact_id: str) -> pd.DataFrame:
    """`quantity` rdp along orders, of one step, or epsilon along steps, at `delta`."""
    rows: list[dict] = []
    for label, changed in plan.artefacts[artefact_id].bounds.items():
        at = {**DEFAULTS, **changed.model_dump(exclude_none=True)}
        for bound, values in rdp_of_a_step(at, ORDERS).items():
            shared = {"settings": label, **at, "bound": bound, "quantity": RDP, "along": "order"}
            rows += [shared | {"x": x, "value": value} for x, value in zip(ORDERS, values, strict=True)]
        for bound, values in epsilon_after(at, STEPS).items():
            shared = {"settings": label, **at, "bound": bound, "quantity": EPSILON, "along": "steps", "delta": DELTA}
            rows += [shared | {"x": float(x), "value": value} for x, value in zip(STEPS, values, strict=True)]
    return pd.DataFrame(rows, columns=list(COLUMNS))
