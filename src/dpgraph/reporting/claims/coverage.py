"""Data sets that a verdict is about, and claims that a suite decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pandas as pd

from dpgraph.experiments.claim import uses
from dpgraph.experiments.suite import SuiteTask
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.verdicts import NOT_RUN

ELSEWHERE = "on this suite's data sets, which are not the paper's"
DEMONSTRATION = "in a demonstration, whose short trainings decide nothing"


@dataclass
class Coverage:
    """Which data sets a verdict is about, and which of the paper's it is not."""

    shown: dict[str, SuiteTask] = field(default_factory=dict)
    wanted: dict[str, None] = field(default_factory=dict)  # the paper's names
    others: dict[str, SuiteTask] = field(default_factory=dict)  # of the artefact

    def add(self, tasks: Iterable[SuiteTask], wanted: Iterable[str], others: Iterable[SuiteTask]) -> None:
        self.shown |= {task.label: task for task in tasks}
        self.wanted |= dict.fromkeys(wanted)
        self.others |= {task.label: task for task in others}

    def text(self, demonstration: bool) -> str:
        tasks = self.shown.values()
        foreign = [task.label for task in tasks if task.published is None]
        own = [task.published for task in tasks if task.published is not None]
        parts = [DEMONSTRATION] if demonstration else []
        if foreign:
            parts.append(f"{ELSEWHERE}: {' / '.join(foreign)}")
        if own:
            parts.append(f"on the paper's data sets {', '.join(own)}")
        left = [name for name in self.wanted if own and name not in own]
        left += [label for label, task in self.others.items() if label not in self.shown and task.published not in left]
        if left:
            parts.append(f"not tested on {', '.join(left)}")
        return "; ".join(parts)


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
