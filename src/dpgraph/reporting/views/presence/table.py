"""What others' predictions show of who is there, beside what is claimed."""

from __future__ import annotations

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.display import MadeTable
from dpgraph.reporting.views.accuracy.table import make as of_methods

WHAT = (
    "Values: ε that is refuted below, at 99 % for each run, by one run with records that are there or not by a fair "
    "coin (Steinke et al. 2023). The attacker sees the predicted classes of nodes that list such a record, nothing "
    "else, and guesses it there the more of them name its class. An ε whose scope is the parameters says nothing of "
    "this view; 0 is no proof that nothing leaks."
)


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    made = of_methods(plan, artefact_id, results)
    made.table.remarks.insert(0, WHAT)
    return made
