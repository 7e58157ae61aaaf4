"""From comparisons to a verdict: reproduced, contradicted, inconclusive or not run (why)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from dpgraph.planning.plan import Entry
from dpgraph.reporting import protection
from dpgraph.reporting.claims.contrasts import LEVEL, Contrast
from dpgraph.reporting.formats import difference, epsilon
from dpgraph.reporting.results import EntryResult

Place = tuple[Entry, EntryResult]


@dataclass(frozen=True)
class Verdict:
    verdict: str
    scope: str
    evidence: str
    comparisons: int = 0
    n: int = 0
    control: str = ""  # where the claim's methods are not better than its control


def not_run(why: str) -> Verdict:
    return Verdict(f"not run ({why})", "", "")


@dataclass(frozen=True)
class Comparison:
    """One statement, that a quantity is above `margin`, with a p-value against it and one against its opposite."""

    where: str
    estimate: float
    error: float
    margin: float
    n: int  # seeds of the smallest sample
    p_above: float
    p_below: float
    unit: str = "points"

    @property
    def sentence(self) -> str:
        value = f"{self.where}: {difference(self.estimate)} {self.unit}".rstrip()
        if self.n < 2:
            return value
        side, p = ("above", self.p_above) if self.estimate >= self.margin else ("below", self.p_below)
        shown = "p < 0.001" if p < 1e-3 else f"p = {p:.3f}"
        margin = f"{self.margin:g}".replace("-", "−")
        return f"{value}, standard error {self.error:.2f}; {side} {margin}: {shown}"


def compared(where: str, value: Contrast, margin: float) -> Comparison:
    above, below = value.p_above(margin), value.p_below(margin)
    return Comparison(where, value.estimate, value.error, margin, value.n, above, below, value.unit)


def all_hold(parts: Sequence[Comparison]) -> Comparison:
    """That every part holds, shown by the one with the smallest estimate.

    Holds at a level if each part does (intersection-union); refuted if one part is, after Bonferroni's correction.
    """
    least = min(parts, key=lambda part: part.estimate - part.margin)
    return Comparison(
        least.where,
        least.estimate,
        least.error,
        least.margin,
        min(part.n for part in parts),
        max(part.p_above for part in parts),
        min(1.0, len(parts) * min(part.p_below for part in parts)),
        least.unit,
    )


@dataclass
class Comparisons:
    """What a claim compares: comparisons that have values, and reasons of those that have none."""

    made: list[Comparison] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    private: dict[tuple[str, str], Place] = field(default_factory=dict)  # compared, with a budget, each once

    def use(self, *places: Place) -> None:
        private = (place for place in places if place[0].cell.privacy is not None)
        self.private |= {(place[0].artefact, place[0].cell.slug): place for place in private}


def budget(entry: Entry, outcome: EntryResult) -> str:
    """E.g. `dp-gcn (7) on Cora: published 2.00 (subgraph, parameters), rigorous 3.38 (graph, parameters)`."""
    value = "" if entry.value is None else f" ({entry.value})"
    name = f"{entry.method_id}{value} on {entry.suite_task.label}"
    shown = {"published": epsilon(outcome.eps_published), "rigorous": epsilon(outcome.eps_rigorous)}
    shown["rigorous"] += protection.mark(outcome.privacy)
    kinds = {mode: protection.of_epsilon(outcome.privacy, mode) for mode in protection.MODES}
    both = (f"{mode} {text}" + (f" ({kinds[mode]})" if kinds[mode] else "") for mode, text in shown.items())
    return f"{name}: {', '.join(both)}"


def _about(places: Iterable[Place]) -> list[str]:
    """Sentences on the epsilons of all runs that a claim rests on."""
    rows = [outcome.privacy | {"label": entry.method_id} for entry, outcome in places]
    table = pd.DataFrame(rows)
    unlike = [protection.UNLIKE] if protection.unlike(table) else []
    return [text.removesuffix(".") for text in [*unlike, *protection.uncovered(table)]]


def decide(comparisons: Comparisons, scope: str) -> Verdict:
    """*Reproduced* if every comparison holds at the 5 % level (an intersection-union test needs no correction).

    *Contradicted* if one is refuted at 5 % after Bonferroni's correction: one counterexample refutes a universal claim,
    whatever else is missing. Else *not run* if a comparison is missing, else *inconclusive*. The evidence begins with
    the weakest comparison.
    """
    made = sorted(comparisons.made, key=lambda one: -one.p_above if one.n >= 2 else 0.0)
    evidence = [comparison.sentence for comparison in made]
    evidence += [f"not compared: {text}" for text in dict.fromkeys(comparisons.missing)]
    if comparisons.private:
        budgets = dict.fromkeys(budget(*place) for place in comparisons.private.values())
        evidence.append(f"ε: {'; '.join(budgets)}")
        evidence += _about(comparisons.private.values())
    text = ". ".join(evidence)
    n = min((comparison.n for comparison in made), default=0)
    testable = [comparison for comparison in made if comparison.n >= 2]
    if any(comparison.p_below < LEVEL / len(testable) for comparison in testable):
        verdict = "contradicted"
    elif comparisons.missing:
        verdict = f"not run ({comparisons.missing[0]})"
    elif len(testable) < len(made):
        return Verdict("inconclusive", scope, f"one seed only: no test is possible. {text}", len(made), n)
    elif all(comparison.p_above < LEVEL for comparison in testable):
        verdict = "reproduced"
    else:
        verdict = "inconclusive"
    return Verdict(verdict, scope, text, len(made), n)
