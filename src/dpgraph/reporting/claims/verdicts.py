"""Verdicts from comparisons on a claim that is read in one way."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from dpgraph.planning.plan import Entry
from dpgraph.privacy.guarantee import MODE_NAMES
from dpgraph.reporting import protection
from dpgraph.reporting.claims import parts as claim_parts
from dpgraph.reporting.claims.contrasts import LEVEL, Above, Contrast, Strength, Ways, strength, together
from dpgraph.reporting.claims.parts import CONTRADICTED, ENOUGH, NOT_RUN, REPRODUCED, UNDERPOWERED, PartResult
from dpgraph.reporting.formats import difference, epsilon
from dpgraph.reporting.results import EntryResult

Place = tuple[Entry, EntryResult]

ONE_MEAN_NEGATIVE = re.compile(r"(.*, )?− ([^+−]*)")  # "MNIST, − dp-mlp", from a test that the mean is below a margin
COMPUTED = "computed, without training"  # the scope of claims that are the same in every suite


@dataclass(frozen=True)
class Verdict:
    """A verdict on a claim; `size` and `power` are those of the test at the suite's seeds, nan without a test."""

    verdict: str
    scope: str
    evidence: str
    comparisons: int = 0
    n: int = 0
    reason: str = ""  # why it was not run, or not decided; else the comparison that decides it
    size: float = math.nan
    power: float = math.nan
    effect: str = ""  # the true differences, in points, under which power is simulated
    effect_source: str = ""
    mechanism: str = ""  # what decided it: the methods' mechanisms, with the relations of their epsilons
    data: str = ""  # whether the suite has all data sets that the claim names; empty where it tests no part of it
    parts: tuple[PartResult, ...] = ()
    substitutes: str = ""  # what the same tests say on data or mechanisms that are not the paper's own


def not_run(why: str) -> Verdict:
    return Verdict(NOT_RUN, "", "", reason=why, parts=(PartResult("", missing=why),))


def computed(holds: bool, evidence: str, n: int, false_premise: str = "") -> Verdict:
    """Return the verdict on a claim that needs no training; `n`: numbers that were recomputed."""
    verdict, reason = REPRODUCED if holds else CONTRADICTED, evidence.removesuffix(".")
    if false_premise:
        verdict, reason = claim_parts.PREMISE_FAILS, f"premise, {false_premise}; what was computed: {reason}"
    parts = (PartResult("", verdict, reason, comparisons=n),)
    return Verdict(verdict, COMPUTED, evidence, n, mechanism="accounting", reason=reason, parts=parts)


@dataclass(frozen=True)
class Comparison:
    """One statement, that a quantity is above `margin`, with a p-value against it and one against its opposite.

    `ways` are what the p-value of the first is made of: it holds if in one of the ways all contrasts are above their
    margins, at the level divided by the number of ways.
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

    @property
    def p_larger(self) -> float:
        """Return the p-value against "in no way is every contrast larger than what its test finds half of the time"."""
        level = LEVEL / max(1, len(self.ways))
        return min([1.0, *(len(self.ways) * max(one.p_larger(level) for one in way) for way in self.ways)])

    @property
    def sentence(self) -> str:
        """Return what was found, in words; of minus one mean, what that says of the mean."""
        mean = ONE_MEAN_NEGATIVE.fullmatch(self.where)
        if mean and self.n >= 2:
            found = replace(
                self, where="".join(mean.groups("")), estimate=-self.estimate, margin=-self.margin,
                p_above=self.p_below, p_below=self.p_above, by_data_set={k: -v for k, v in self.by_data_set.items()},
            )  # fmt: skip
            return found.sentence.replace(": +", ": ", 1)
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
    return picked(where, value, (value.p_above(margin), value.p_below(margin)), ways, margin)


def picked(where: str, value: Contrast, p: tuple[float, float], ways: Ways, margin: float = 0.0) -> Comparison:
    """Return the comparison that `value` is above `margin`, with p-values `p` against it and against its opposite.

    The parts of the value were picked by their means.
    """
    return Comparison(
        where, value.estimate, value.error, margin, value.n, *p, value.unit, ways, by_data_set=value.by_data_set
    )  # fmt: skip


def all_hold(parts: Sequence[Comparison]) -> Comparison:
    """Return the comparison that every part holds, shown by the part that refutes it, else by the smallest.

    Holds at a level if each part does (intersection-union); refuted if one part is, after Bonferroni's correction.
    """
    refutes = min(parts, key=lambda part: part.p_below)
    p_below = min(1.0, len(parts) * refutes.p_below)
    return replace(
        refutes if p_below < LEVEL else min(parts, key=lambda part: part.estimate - part.margin),
        n=min(part.n for part in parts),
        p_above=max(part.p_above for part in parts),
        p_below=p_below,
        ways=(tuple(one for part in parts for way in part.ways for one in way),),
    )


@dataclass
class Comparisons:
    """The comparisons of a claim, and the reasons for those that could not be made."""

    made: list[Comparison] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    left: dict[str, None] = field(default_factory=dict)  # the paper's data sets that the suite does not test
    private: dict[tuple[str, str], Place] = field(default_factory=dict)  # compared, with a budget, each once
    absent: list[str] = field(default_factory=list)  # data sets that the claim names and the suite has not
    plain: dict[str, None] = field(default_factory=dict)  # methods without privacy that are compared, each once

    def lack(self, where: str, named: Iterable[tuple[str, EntryResult]]) -> bool:
        """Return whether an outcome is no result; then the reason is noted."""
        bad = dict.fromkeys(f"{name} {outcome.why_not}" for name, outcome in named if not outcome.ok)
        self.missing += [f"{where}: {', '.join(bad)}"] if bad else []
        return bool(bad)

    def add(self, others: Comparisons) -> None:
        for name, more in vars(others).items():
            own = getattr(self, name)
            setattr(self, name, own + more if isinstance(more, list) else own | more)

    def use(self, *places: Place) -> None:
        single = [one for place in places for one in place[1].members or (place,)]
        self.plain |= {place[0].cell.method: None for place in single if place[0].cell.privacy is None}
        private = (place for place in single if place[0].cell.privacy is not None)
        self.private |= {(place[0].artefact, place[0].cell.slug): place for place in private}


def budget(entry: Entry, outcome: EntryResult) -> str:
    """Return e.g. `dp-gcn (7) on Cora: claimed 2.00 (subgraph, parameters), proved 3.38 (graph, parameters)`."""
    value = "" if entry.value is None else f" ({entry.value})"
    name = f"{entry.method_id}{value} on {entry.suite_task.label}"
    shown = {mode: epsilon(getattr(outcome.guarantee, mode).epsilon) for mode in protection.MODES}
    shown["rigorous"] += protection.mark(outcome.privacy)
    kinds = {mode: protection.promise_of(outcome.privacy, mode) for mode in protection.MODES}
    both = (f"{MODE_NAMES[mode]} {text}" + (f" ({kinds[mode]})" if kinds[mode] else "") for mode, text in shown.items())
    return f"{name}: {', '.join(both)}"


def _about(places: Iterable[Place]) -> list[str]:
    """Return sentences on the epsilons of all runs that a claim rests on."""
    rows = [outcome.privacy | {"label": entry.method_id} for entry, outcome in places]
    table = pd.DataFrame(rows)
    unlike = [protection.UNLIKE] if protection.unlike(table) else []
    return [text.removesuffix(".") for text in [*unlike, *protection.uncovered(table)]]


def decide(
    parts: Mapping[str, Comparisons],
    scope: str = "",
    asserted: float | None = None,
    premises: Mapping[str, Comparisons] | None = None,
    given: Sequence[PartResult] = (),
) -> Verdict:
    """Return the verdict on a claim read in one way. The evidence begins with the weakest comparison.

    parts, premises: by name. asserted: the difference that the statement names. given: parts that need no results.
    """
    results = [_result(name, one, asserted) for name, one in parts.items()]
    results += [
        replace(_result(name, replace(one, left={}), None), premise=True) for name, one in (premises or {}).items()
    ]
    verdict, reason, judged_parts = claim_parts.judged([*results, *given])
    whole = Comparisons()
    for one in parts.values():
        whole.add(one)
    made = _weakest_first(whole, asserted)
    evidence = [f"premise, {one.part}: {one.verdict}: {one.explained}" for one in judged_parts if one.premise]
    evidence += [comparison.sentence for comparison in made]
    evidence += [f"not compared: {text}" for text in dict.fromkeys(whole.missing)]
    if whole.private:
        evidence.append(f"ε: {'; '.join(dict.fromkeys(budget(*place) for place in whole.private.values()))}")
        evidence += _about(whole.private.values())
    tested, plain = _strength(made), ", ".join(whole.plain)
    return Verdict(
        verdict,
        scope,
        ". ".join(evidence),
        reason=reason,
        comparisons=len(made),
        n=min((comparison.n for comparison in made), default=0),
        size=tested.size,
        power=tested.power,
        **_effects([one for one in made if one.n >= 2]),
        mechanism=mechanisms(whole.private.values()) or (plain and f"{plain}, without privacy"),
        data=claim_parts.DATA_MISSING if whole.absent else claim_parts.DATA_HERE * bool(scope),
        parts=judged_parts,
    )


def _result(name: str, comparisons: Comparisons, asserted: float | None) -> PartResult:
    made = _weakest_first(comparisons, asserted)
    testable = [one for one in made if one.n >= 2]
    left = [f"not tested on {', '.join(comparisons.left)}"] * bool(comparisons.left)
    missing = next(iter([*comparisons.missing, *left]), "")
    if not testable:
        if made and not missing:
            seen = f"one seed only: no test is possible; what was seen: {made[0].sentence}"
            return PartResult(name, UNDERPOWERED, seen, comparisons=len(made), n=made[0].n)
        return PartResult(name, missing=missing or "nothing to compare")
    p_against = min(1.0, len(testable) * min(one.p_below for one in testable))
    refutes = min(testable, key=lambda one: one.p_below)
    tested, p_for = _strength(made), max(one.p_above for one in testable)
    return PartResult(
        name,
        reason=(refutes if p_against < LEVEL else made[0]).sentence,
        comparisons=len(made),
        n=min(one.n for one in made),
        size=tested.size,
        power=tested.power,
        p_for=p_for,
        p_against=p_against,
        larger=tested.power < ENOUGH and p_for < LEVEL and max(one.p_larger for one in testable) < LEVEL,
        missing=missing,
    )


def _weakest_first(comparisons: Comparisons, asserted: float | None) -> list[Comparison]:
    made = [_asserting(one, asserted) for one in comparisons.made]
    return sorted(made, key=lambda one: -one.p_above if one.n >= 2 else 0.0)


def _strength(made: Sequence[Comparison]) -> Strength:
    testable = [one for one in made if one.n >= 2]
    return together(
        strength([one.ways for one in testable if one.given is None]),
        [one.given for one in testable if one.given is not None],
    )


def _asserting(comparison: Comparison, asserted: float | None) -> Comparison:
    if asserted is None:
        return comparison
    ways = tuple(tuple(replace(one, asserted=asserted) for one in way) for way in comparison.ways)
    return replace(comparison, ways=ways)


def _effects(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Return the effects of all contrasts, from the smallest to the largest, and their sources."""
    parts = [part for comparison in comparisons for way in comparison.ways for part in way]
    values = sorted({round(part.effect, 2) for part in parts})
    given = [comparison.effect for comparison in comparisons if comparison.effect]
    shown = [" to ".join(f"{value:g}" for value in dict.fromkeys((values[0], values[-1])))] if values else []
    sources = dict.fromkeys(str(part.source) for part in parts)
    texts = [*shown, *dict.fromkeys(given)]
    return {"effect": "; ".join(texts).replace("-", "−"), "effect_source": "; ".join(sources)}


def mechanisms(places: Iterable[Place]) -> str:
    """Return the mechanisms of the runs that a claim rests on, each with relation and scope of both epsilons."""
    found = {}
    for entry, outcome in places:
        budget = entry.cell.privacy
        name = f"{entry.cell.method} {budget.variant}" if budget is not None else entry.cell.method
        kinds = {mode: protection.promise_of(outcome.privacy, mode) or "none" for mode in protection.MODES}
        found[name] = f"{name} ({'; '.join(f'{MODE_NAMES[mode]}: {kind}' for mode, kind in kinds.items())})"
    return "; ".join(found.values())
