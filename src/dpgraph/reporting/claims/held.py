"""Which claims a suite has something to say of."""

from __future__ import annotations

import pandas as pd

from dpgraph.experiments.claim import uses
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.verdicts import NOT_RUN

NAMED = "other suites have their tables and figures"


def held(plan: Plan, claims: pd.DataFrame) -> pd.DataFrame:
    """The rows of claims.csv without those that were not run since no test of them has its artefacts in this suite.

    A claim whose data the suite has not, or that says why it is not tested, stays: its reason is of use.
    """
    return claims[~claims["claim"].isin(_elsewhere(plan, claims))]


def elsewhere(plan: Plan, claims: pd.DataFrame) -> str:
    """A sentence on the claims that `held` leaves out; empty where there is none."""
    names = _elsewhere(plan, claims)
    if not names:
        return ""
    count = f"{len(names)} more claims are" if len(names) > 1 else "One more claim is"
    return f"{count} not tested here, {NAMED}: {', '.join(names)}."


def _elsewhere(plan: Plan, claims: pd.DataFrame) -> list[str]:
    known = plan.claims()
    absent = {
        name
        for name, (paper, claim) in known.items()
        if claim.parts
        and not any(all(f"{paper}/{artefact}" in plan.artefacts for artefact, _ in uses(part)) for part in claim.parts)
    }
    rows = claims[(claims["verdict"] == NOT_RUN) & claims["claim"].isin(absent)]
    return [str(name) for name in rows["claim"]]
