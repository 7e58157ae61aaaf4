"""A claim's control: a method that learns nothing, next to every private run that the claim rests on."""

from __future__ import annotations

from collections.abc import Iterable

from dpgraph.experiments.experiment import HARD_CASES
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.claims.comparing import at_target, contrast_of
from dpgraph.reporting.claims.contrasts import LEVEL
from dpgraph.reporting.claims.verdicts import Place
from dpgraph.reporting.formats import difference
from dpgraph.reporting.results import Results

NAMED = 4  # runs that are named; the others are counted


def against_control(plan: Plan, control: str, places: Iterable[Place], results: Results) -> str:
    """Where the runs are not better than the control on the same artefact, task, value and target epsilon.

    Better: Welch's one-sided t at 5 %, without correction. A share of hard cases has no better or worse, nor has an
    error of an attack: there a run is distinguished from the control by the two-sided test.
    """
    same, missing, better = [], [], 0
    for entry, outcome in places:
        if entry.method_id == control or not outcome.ok:
            continue
        value = "" if entry.value is None else f" ({entry.value})"
        name = f"{entry.method_id}{value} on {entry.suite_task.label}{at_target(entry.epsilon)}"
        beside = _beside(plan, control, entry)
        metric = plan.artefacts[entry.artefact].metric
        other = None if beside is None else results.outcome(beside, metric)
        if beside is None or other is None or not other.ok:
            missing.append(name)
            continue
        gain = contrast_of([(1.0, (entry, outcome)), (-1.0, (beside, other))])
        p = gain.p_above(0.0)
        if metric.startswith(HARD_CASES) or not outcome.quantity.more_is_better:
            p = 2 * min(p, gain.p_below(0.0))
        if p < LEVEL:
            better += 1
        else:
            shown = "" if gain.n < 2 else f", p = {min(p, 1.0):.2f}"
            same.append(f"{name} ({difference(gain.estimate)} {gain.unit}{shown})")
    parts = []
    if same:
        more = f"; and {len(same) - NAMED} more" if len(same) > NAMED else ""
        parts.append(f"not better than the control {control}: {'; '.join(same[:NAMED])}{more}")
    if better:
        parts.append(f"better than the control {control} in {better} of {better + len(same)} runs")
    if missing:
        parts.append(f"no control {control} next to {'; '.join(missing)}")
    return ". ".join(parts)


def _beside(plan: Plan, control: str, entry: Entry) -> Entry | None:
    """The control at the same target epsilon; a control without targets is compared at each."""
    own = [
        other
        for other in plan.entries_of(entry.artefact)
        if (other.method_id, other.task_id, other.value) == (control, entry.task_id, entry.value)
    ]
    at_epsilon = [other for other in own if other.epsilon == entry.epsilon]
    without = [other for other in own if other.epsilon is None]
    return next(iter([*at_epsilon, *without]), None)
