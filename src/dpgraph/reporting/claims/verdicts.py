"""From comparisons to a verdict: reproduced, contradicted, inconclusive, underpowered or not run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from dpgraph.planning.plan import Entry
from dpgraph.reporting import protection
from dpgraph.reporting.claims.contrasts import LEVEL, Contrast
from dpgraph.reporting.claims.power import Above, Strength, Tested, Ways, strength, together
from dpgraph.reporting.formats import difference, epsilon
from dpgraph.reporting.results import EntryResult

Place = tuple[Entry, EntryResult]


REPRODUCED, CONTRADICTED, INCONCLUSIVE, UNDERPOWERED, NOT_RUN = VERDICTS = (
    "reproduced",
    "contradicted",
    "inconclusive",
    "underpowered",
    "not run",
)
DATA_HERE, DATA_MISSING = "here", "missing in part"
ENOUGH = 0.5  # power below which a claim is called underpowered, whatever its test says


@dataclass(frozen=True)
class Verdict:
    """`size` and `power` are those of the test at the suite's seeds (`claims.power`); nan where nothing is tested."""

    verdict: str
    scope: str
    evidence: str
    comparisons: int = 0
    n: int = 0
    control: str = ""  # where the claim's methods are not better than its control
    reason: str = ""  # why it was not run, or not decided; else the comparison that decides it
    size: float = math.nan
    power: float = math.nan
    effect: str = ""  # the true differences, in points, under which power is simulated
    effect_source: str = ""
    mechanism: str = ""  # what decided it: the methods' mechanisms, with the relations of their epsilons
    data: str = ""  # whether the suite has all data sets that the claim names; empty where it tests no part of it


def not_run(why: str) -> Verdict:
    return Verdict(NOT_RUN, "", "", reason=why)


def computed(holds: bool, evidence: str, n: int) -> Verdict:
    """Return the verdict on a claim that needs no training; `n`: numbers that were recomputed."""
    verdict, reason = REPRODUCED if holds else CONTRADICTED, evidence.partition(". ")[0]
    return Verdict(verdict, "computed, without training", evidence, n, mechanism="accounting", reason=reason)


@dataclass(frozen=True)
class Comparison:
    """One statement, that a quantity is above `margin`, with a p-value against it and one against its opposite.

    `ways` are what the p-value of the first is made of: it holds if in one of the ways all contrasts are above their
    margins, at the level divided by the number of ways. `against` is the same of the second, with contrasts that are
    below their margins.
    """

    where: str
    estimate: float
    error: float
    margin: float
    n: int  # seeds of the smallest sample
    p_above: float
    p_below: float
    unit: str = "points"
    ways: Ways = ()
    given: Strength | None = None  # of a test that is none on contrasts
    effect: str = ""  # of such a test
    by_data_set: Mapping[str, float] = field(default_factory=dict)  # estimates, where it is about their mean
    against: Ways = ()
    singles: tuple[Comparison, ...] = ()  # the same of each data set of a mean, of which a statement is said of each

    @property
    def refuted_by(self) -> list[Comparison]:
        """Data sets of a mean that refute what is said of each, at 5 % after Bonferroni's correction over them."""
        return [one for one in self.singles if one.p_below < LEVEL / len(self.singles)]

    @property
    def tested(self) -> Tested:
        return Tested(self.ways, tuple(one.against for one in self.singles))

    @property
    def sentence(self) -> str:
        value = f"{self.where}: {difference(self.estimate)} {self.unit}".rstrip()
        if self.by_data_set:
            value += f" ({', '.join(f'{name} {difference(one)}' for name, one in self.by_data_set.items())})"
        if self.n < 2:
            return value
        side, p = ("above", self.p_above) if self.estimate >= self.margin else ("below", self.p_below)
        shown = "p < 0.001" if p < 1e-3 else f"p = {p:.3f}"
        margin = f"{self.margin:g}".replace("-", "−")
        error = "" if math.isnan(self.error) else f", standard error {self.error:.2f}"
        return f"{value}{error}; {side} {margin}: {shown}"


def compared(where: str, value: Contrast, margin: float) -> Comparison:
    ways = ((Above(value, margin),),)
    return picked(where, value, (value.p_above(margin), value.p_below(margin)), ways, ways, margin)


def picked(
    where: str, value: Contrast, p: tuple[float, float], ways: Ways, against: Ways, margin: float = 0.0
) -> Comparison:
    """That `value`, whose parts were picked by their means, is above it; `p` against that and against its opposite."""
    return Comparison(
        where, value.estimate, value.error, margin, value.n, *p, value.unit, ways, by_data_set=value.by_data_set,
        against=against,
    )  # fmt: skip


def all_hold(parts: Sequence[Comparison]) -> Comparison:
    """That every part holds, shown by the one with the smallest estimate.

    Holds at a level if each part does (intersection-union); refuted if one part is, after Bonferroni's correction.
    """
    least = min(parts, key=lambda part: part.estimate - part.margin)
    return replace(
        least,
        n=min(part.n for part in parts),
        p_above=max(part.p_above for part in parts),
        p_below=min(1.0, len(parts) * min(part.p_below for part in parts)),
        ways=(tuple(one for part in parts for way in part.ways for one in way),),
        against=tuple(way for part in parts for way in part.against),
    )


@dataclass
class Comparisons:
    """What a claim compares: comparisons that have values, and reasons of those that have none."""

    made: list[Comparison] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    private: dict[tuple[str, str], Place] = field(default_factory=dict)  # compared, with a budget, each once
    absent: list[str] = field(default_factory=list)  # data sets that the claim names and the suite has not
    plain: dict[str, None] = field(default_factory=dict)  # methods without privacy that are compared, each once

    def add(self, others: Comparisons) -> None:
        self.made += others.made
        self.missing += others.missing
        self.private |= others.private
        self.absent += others.absent
        self.plain |= others.plain

    def use(self, *places: Place) -> None:
        single = [one for place in places for one in getattr(place[1], "members", None) or (place,)]
        self.plain |= {place[0].cell.method: None for place in single if place[0].cell.privacy is None}
        private = (place for place in single if place[0].cell.privacy is not None)
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


def decide(comparisons: Comparisons, scope: str, asserted: float | None = None) -> Verdict:
    """*Reproduced* if every comparison holds at the 5 % level (an intersection-union test needs no correction).

    *Contradicted* if one is refuted at 5 % after Bonferroni's correction: one counterexample refutes a universal claim,
    whatever else is missing. Else *not run* if a comparison is missing, else *inconclusive*. A claim of which a true
    effect would be seen with probability below 1/2 at this number of seeds, or nobody knows, is *underpowered* whatever
    its comparisons say (*not run* if one is missing). A mean of data sets that are not the paper's does not reproduce
    what is said of each of them where one of these refutes it: such a claim is inconclusive. The evidence begins with
    the weakest comparison. `asserted` is the difference that the statement names.
    """
    made = [_asserting(one, asserted) for one in comparisons.made]
    made = sorted(made, key=lambda one: -one.p_above if one.n >= 2 else 0.0)
    evidence = [comparison.sentence for comparison in made]
    evidence += [f"not compared: {text}" for text in dict.fromkeys(comparisons.missing)]
    if comparisons.private:
        budgets = dict.fromkeys(budget(*place) for place in comparisons.private.values())
        evidence.append(f"ε: {'; '.join(budgets)}")
        evidence += _about(comparisons.private.values())
    testable = [comparison for comparison in made if comparison.n >= 2]
    tested = together(
        strength([comparison.tested for comparison in testable if comparison.given is None]),
        [comparison.given for comparison in testable if comparison.given is not None],
    )
    n = min((comparison.n for comparison in made), default=0)
    verdict, reason = _decided(made, comparisons.missing, tested.power, n)
    return Verdict(
        verdict,
        scope,
        ". ".join(evidence),
        reason=reason,
        comparisons=len(made),
        n=n,
        size=tested.size,
        power=tested.power,
        **_effects(testable),
        mechanism=mechanisms(comparisons.private.values()) or _without_privacy(comparisons.plain),
        data=DATA_MISSING if comparisons.absent else DATA_HERE,
    )


def _decided(made: Sequence[Comparison], missing: Sequence[str], power: float, n: int) -> tuple[str, str]:
    """Verdict and reason; `made` begins with the weakest comparison."""
    testable = [one for one in made if one.n >= 2]
    refuting = [one for one in testable if one.p_below < LEVEL / len(testable)]
    against = min(refuting, key=lambda one: one.p_below).sentence if refuting else ""
    holds = bool(testable) and all(one.p_above < LEVEL for one in testable)
    if against and power >= ENOUGH:
        return CONTRADICTED, against
    if missing or not made:
        return NOT_RUN, missing[0] if missing else "nothing to compare"
    if len(testable) < len(made):
        return UNDERPOWERED, "one seed only: no test is possible"
    if not power >= ENOUGH:
        why = f"with {n} seeds a true effect would be seen with probability {power:.2f}"
        if math.isnan(power):
            why = "the power of the test is not known"
        found = "against the claim" if against else "for the claim" if holds else "neither for the claim nor against it"
        return UNDERPOWERED, f"{why}; what was seen is {found}: {against or made[0].sentence}"
    if not holds:
        return INCONCLUSIVE, f"neither shown nor refuted at the 5 % level: {made[0].sentence}"
    alone = [one.sentence for comparison in testable for one in comparison.refuted_by]
    if alone:
        return INCONCLUSIVE, f"it holds on the mean, and a single data set refutes it: {alone[0]}"
    return REPRODUCED, made[0].sentence


def _asserting(comparison: Comparison, asserted: float | None) -> Comparison:
    if asserted is None:
        return comparison
    ways, against = (
        tuple(tuple(replace(one, asserted=asserted) for one in way) for way in some)
        for some in (comparison.ways, comparison.against)
    )
    singles = tuple(_asserting(one, asserted) for one in comparison.singles)
    return replace(comparison, ways=ways, against=against, singles=singles)


def _effects(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """The effects of all contrasts, from the smallest to the largest, and where they are from."""
    parts = [part for comparison in comparisons for way in comparison.ways for part in way]
    values = sorted({round(part.effect, 2) for part in parts})
    given = [comparison.effect for comparison in comparisons if comparison.effect]
    shown = [" to ".join(f"{value:g}" for value in dict.fromkeys((values[0], values[-1])))] if values else []
    sources = dict.fromkeys(str(part.source) for part in parts)
    texts = [*shown, *dict.fromkeys(given)]
    return {"effect": "; ".join(texts).replace("-", "−"), "effect_source": "; ".join(sources)}


def _without_privacy(methods: Iterable[str]) -> str:
    """Of a claim that no private run is compared in."""
    names = ", ".join(methods)
    return f"{names}, without privacy" if names else ""


def mechanisms(places: Iterable[Place]) -> str:
    """Mechanisms of the runs that a claim rests on, each with relation and scope of both epsilons."""
    found = {}
    for entry, outcome in places:
        budget = entry.cell.privacy
        name = f"{entry.cell.method} {budget.variant}" if budget is not None else entry.cell.method
        kinds = {mode: protection.of_epsilon(outcome.privacy, mode) or "none" for mode in protection.MODES}
        found[name] = f"{name} ({'; '.join(f'{mode}: {kind}' for mode, kind in kinds.items())})"
    return "; ".join(found.values())
