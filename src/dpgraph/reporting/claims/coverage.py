"""Data sets that a verdict is about, and claims that a suite decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pandas as pd

from dpgraph.config.claim_tests import uses
from dpgraph.config.suite import SuiteTask
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.parts import NOT_RUN

DEMONSTRATION = "in a demonstration, whose short trainings decide nothing"


@dataclass
class Coverage:
    """The data sets that a verdict is about."""

    shown: dict[str, SuiteTask] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)  # names of data sets that are not tested

    def add(self, tasks: Iterable[SuiteTask], left: Iterable[str]) -> None:
        self.shown |= {task.label: task for task in tasks}
        self.left |= dict.fromkeys(left)

    @property
    def labels(self) -> str:
        return ", ".join(self.shown)

    def text(self, demonstration: bool) -> str:
        left = [name for name in self.left if name not in self.shown]
        parts = [DEMONSTRATION] * demonstration + [f"on {self.labels}"] * bool(self.shown)
        return "; ".join([*parts, *([f"not tested on {', '.join(left)}"] if left else [])])


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
