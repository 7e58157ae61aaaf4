"""Comparisons that each kind of claim makes, on one task of an artefact (kinds: config/claim_tests.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dpgraph.config import claim_tests as kinds
from dpgraph.config.claim_tests import SimpleTest
from dpgraph.reporting.chance import METRIC as MAJORITY
from dpgraph.reporting.claims.comparing import Known, Place, add, at_target, chosen_targets
from dpgraph.reporting.claims.curves import compare_curves
from dpgraph.reporting.claims.verdicts import Comparisons
from dpgraph.reporting.results import Results


def compare(test: SimpleTest, label: str, known: Known, other: Known, comparisons: Comparisons) -> None:
    """Adds the test's comparisons on the task `label`: `known` in the test's artefact, `other` in its second one."""
    match test:
        case kinds.Greater():
            for better in test.better:
                for worse in test.worse:
                    _differences(test, label, (better, worse), (known, other), (test.margin, None), comparisons)
        case kinds.Similar():
            for pair in test.pairs:
                _differences(test, label, pair, (known, other), (-test.within, -test.within), comparisons)
        case kinds.GrowingGap():
            _growing_gap(test, label, known, comparisons)
        case kinds.Monotone() | kinds.Constant() | kinds.PeakInside() | kinds.NearBest() | kinds.SmallerRange():
            compare_curves(test, label, known, other, comparisons)
        case kinds.Regime():
            for method in test.methods:
                for where, (entry, outcome) in _places(test, label, method, known, comparisons):
                    printed = outcome.printed.get(entry.suite_task.published or "")
                    if test.within is not None and printed is None:
                        comparisons.missing.append(f"{where}: the paper prints no number for it")
                        continue
                    least = float(printed or 0.0) - test.within if test.within is not None else float(test.least or 0.0)
                    add(where, [(1.0, (entry, outcome))], least, comparisons)
        case kinds.Acted():
            for pair in test.pairs:
                _acted(test, label, pair, known, comparisons)
        case _:
            raise TypeError(f"{test.kind}: expected a call of the function that is for it")


def _differences(
    test: kinds.Greater | kinds.Similar,
    label: str,
    methods: tuple[str, str],
    known: tuple[Known, Known],
    margins: tuple[float, float | None],
    comparisons: Comparisons,
) -> None:
    """First minus second above margins[0]; where margins[1] is given, second minus first above it, too."""
    first, second = methods
    for value in dict.fromkeys(entry.value for entry, _ in known[0]) if test.values is None else test.values:
        upper, lower = (_of(places, method, value) for places, method in zip(known, methods))
        pairs = dict(_pairs(upper, lower))
        named = label if value is None else f"{label}, {value}"
        if not pairs:
            comparisons.missing.append(f"{named}: {first} and {second} have no budget in common in this suite")
            continue
        for target in chosen_targets(pairs, test.at):
            text = at_target(target)
            if target not in pairs:
                comparisons.missing.append(f"{named}, {first} − {second}{text}: not in this suite")
                continue
            one, two = pairs[target]
            add(f"{named}, {first} − {second}{text}", [(1.0, one), (-1.0, two)], margins[0], comparisons)
            if margins[1] is not None:
                add(f"{named}, {second} − {first}{text}", [(1.0, two), (-1.0, one)], margins[1], comparisons)


def compare_with_chance(
    test: kinds.AboveChance, label: str, known: Known, results: Results, comparisons: Comparisons
) -> None:  # fmt: skip
    """Adds that each method is above the share of the largest class of the test nodes, from the same rows."""
    for method in test.methods:
        for where, (entry, outcome) in _places(test, label, method, known, comparisons):
            chance = results.outcome(entry, MAJORITY)
            if not chance.ok:
                comparisons.missing.append(f"{where}: the share of the largest class is not known")
                continue
            add(f"{where} − chance", [(1.0, (entry, outcome)), (-1.0, (entry, chance))], 0.0, comparisons)


def _places(
    test: kinds.Regime | kinds.AboveChance, label: str, method: str, known: Known, comparisons: Comparisons
) -> Iterator[tuple[str, Place]]:
    """Yield where each place of a method is, at the targets of the test, and the place."""
    own = [place for place in known if place[0].method_id == method]
    own = [place for place in own if test.values is None or place[0].value in test.values]
    if not own:
        comparisons.missing.append(f"{label}, {method}: not in this suite")
    for value in dict.fromkeys(entry.value for entry, _ in own):
        at_value = {place[0].target_epsilon: place for place in own if place[0].value == value}
        named = label if value is None else f"{label}, {value}"
        for target in chosen_targets(at_value, test.at):
            if target in at_value:
                yield f"{named}, {method}{at_target(target)}", at_value[target]
            else:
                comparisons.missing.append(f"{named}, {method}{at_target(target)}: not in this suite")


def _acted(test: kinds.Acted, label: str, pair: tuple[str, str], known: Known, comparisons: Comparisons) -> None:
    """Adds that two methods differ: a method whose factor never acts gives the same numbers seed by seed."""
    one, two = (_of(known, method, None) for method in pair)
    pairs = dict(_pairs(one, two))
    if not pairs:
        comparisons.missing.append(f"{label}: {pair[0]} and {pair[1]} have no budget in common in this suite")
    for target in chosen_targets(pairs, test.at) if pairs else []:
        where = f"{label}, |{pair[0]} − {pair[1]}|{at_target(target)}"
        bad = [f"{entry.method_id} {outcome.why_not}" for entry, outcome in pairs[target] if not outcome.ok]
        if bad:
            comparisons.missing.append(f"{where}: {', '.join(bad)}")
            continue
        (first, outcome), (_, other) = pairs[target]
        apart = replace(outcome, values=(outcome.values - other.values).abs().dropna(), printed={})
        add(where, [(1.0, (first, apart))], test.above, comparisons)


def _growing_gap(test: kinds.GrowingGap, label: str, known: Known, comparisons: Comparisons) -> None:
    for worse in test.worse:
        pairs = [
            (at_target(target), pair) for target, pair in _pairs(_of(known, test.better, None), _of(known, worse, None))
        ]
        if len(pairs) < 2:
            comparisons.missing.append(f"{label}: {test.better} and {worse} have fewer than two budgets in common")
            continue
        (first, (low_better, low_worse)), (last, (high_better, high_worse)) = pairs[0], pairs[-1]
        terms = [(1.0, high_better), (-1.0, high_worse), (-1.0, low_better), (1.0, low_worse)]
        add(f"{label}, gap {test.better} − {worse}{last} minus the same{first}", terms, 0.0, comparisons)


def _of(known: Known, method: str, value: str | None) -> dict[float | None, Place]:
    own = [place for place in known if place[0].method_id == method]
    return {place[0].target_epsilon: place for place in own if place[0].value in (value, None)}


def _pairs(
    upper: dict[float | None, Place], lower: dict[float | None, Place]
) -> Iterator[tuple[float | None, tuple[Place, Place]]]:
    """Both methods at each common target epsilon, ascending; a method without a budget is compared at every one."""
    targets = chosen_targets([*upper, *lower], "every-epsilon")
    for target in targets:
        one = upper.get(target, upper.get(None))
        two = lower.get(target, lower.get(None))
        if one is not None and two is not None:
            yield target, (one, two)


def weighted_sum(
    test: kinds.WeightedSum, label: str, places_of: Callable[[kinds.WeightedMean], Known], comparisons: Comparisons
) -> None:  # fmt: skip
    """Adds the one comparison of a weighted sum; `places_of` a term are those of its artefact and task."""
    terms, names = [], []
    for term in test.terms:
        own, target = _of_term(term, places_of(term))
        task = "" if term.task is None else f" on {term.task}"
        value = "" if term.value is None else f" ({term.value})"
        name = f"{term.method}{value}{task}{at_target(target)}"
        if target not in own:
            comparisons.missing.append(f"{label}: {name} is not in this suite")
            return
        terms.append((term.times, own[target]))
        names.append(f"{'−' if term.times < 0 else '+'} {_times(abs(term.times))}{name}")
    add(f"{label}, {' '.join(names).removeprefix('+ ')}".removeprefix(", "), terms, test.above, comparisons)


def has_terms(test: kinds.WeightedSum, places_of: Callable[[kinds.WeightedMean], Known]) -> bool:
    """Whether the suite has every term on the data set of `places_of`."""
    found = (_of_term(term, places_of(term)) for term in test.terms)
    return all(target in own for own, target in found)


def _of_term(term: kinds.WeightedMean, known: Known) -> tuple[dict[float | None, Place], float | None]:
    """Places of the term's method and value by target epsilon, and the one that is meant."""
    own = {
        entry.target_epsilon: (entry, outcome)
        for entry, outcome in known
        if (entry.method_id, entry.value) == (term.method, term.value)
    }
    return own, chosen_targets(own, "largest-epsilon" if term.epsilon is None else (term.epsilon,))[0]


def _times(weight: float) -> str:
    return "" if weight == 1 else f"{weight:g} "
