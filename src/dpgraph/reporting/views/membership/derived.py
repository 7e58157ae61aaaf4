"""Measures of membership inference as metrics: of both attacks on each seed's exposed losses."""

from __future__ import annotations

import math

from dpgraph.planning.plan import Plan
from dpgraph.reporting.stored import exposures_of
from dpgraph.reporting.views.membership.attacks import ATTACK, SCORES, aligned, attack, measures_of
from dpgraph.reporting.views.registry import Derived, DerivedMetric


def metrics(plan: Plan) -> Derived:
    """Return a row of each measure, or of each attack one that states why there is none."""
    found: Derived = {}
    for name, artefact in plan.artefacts.items():
        for entry in plan.entries_of(name) if artefact.view == "membership" else ():
            exposed = exposures_of(plan, entry)
            if not exposed or (entry.paper, entry.cell.slug, next(iter(exposed))) in found:
                continue
            losses, members = aligned(list(exposed.values()))
            for score in SCORES:
                reason, measured = attack(score, losses, members)
                if reason:
                    first = found.setdefault((entry.paper, entry.cell.slug, next(iter(exposed))), [])
                    first.append(DerivedMetric(f"{ATTACK}/{score}", math.nan, reason=reason))
                for seed, one in zip(exposed, measured, strict=False):
                    own = found.setdefault((entry.paper, entry.cell.slug, seed), [])
                    own += [
                        DerivedMetric(f"{ATTACK}/{score}/{measure}", float(value), place)
                        for measure, values in measures_of(one).items()
                        for place, value in enumerate(values)
                    ]
    return found
