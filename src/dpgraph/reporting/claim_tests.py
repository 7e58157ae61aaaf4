"""What each kind of claim compares, on one task of an artefact (kinds: experiments/experiment.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, permutations

import numpy as np

from dpgraph.experiments.claim import (
    Greater,
    GrowingGap,
    Monotone,
    NearBest,
    RarerClasses,
    Similar,
    SimpleTest,
    SmallerRange,
)
from dpgraph.experiments.plan import Entry
from dpgraph.reporting.class_wise import ClassValues
from dpgraph.reporting.contrasts import Contrast, contrast
from dpgraph.reporting.fairness import rank_correlations
from dpgraph.reporting.formats import epsilon
from dpgraph.reporting.results import Outcome
from dpgraph.reporting.verdicts import Comparison, Comparisons, all_hold, compared

Place = tuple[Entry, Outcome]
Known = list[Place]  # of one task


def compare(test: SimpleTest, label: str, known: Known, other: Known, comparisons: Comparisons) -> None:
    """Adds the test's comparisons on the task `label`: `known` in the test's artefact, `other` in its second one."""
    match test:
        case Greater():
            for better in test.better:
                for worse in test.worse:
                    _differences(label, (better, worse), (known, other), test.at, (test.margin, None), comparisons)
        case Similar():
            for pair in test.pairs:
                _differences(label, pair, (known, other), test.at, (-test.within, -test.within), comparisons)
        case GrowingGap():
            _growing_gap(test, label, known, comparisons)
        case Monotone():
            for method in test.methods:
                _monotone(f"{label}, {method}", _curve(known, method), test.tolerance, comparisons)
        case NearBest():
            for method in test.methods:
                _near_best(f"{label}, {method}", _curve(known, method), test, comparisons)
        case SmallerRange():
            for method in test.methods:
                _smaller_range(f"{label}, {method}", _curve(known, method), _curve(other, method), comparisons)
        case RarerClasses():
            raise TypeError("rarer-classes compares classes: expected a call of compare_classes")


def _differences(
    label: str,
    methods: tuple[str, str],
    known: tuple[Known, Known],
    at: str,
    margins: tuple[float, float | None],
    comparisons: Comparisons,
) -> None:
    """First minus second above margins[0]; where margins[1] is given, second minus first above it, too."""
    first, second = methods
    values = dict.fromkeys(entry.value for entry, _ in known[0])
    for value in values:
        upper, lower = (_of(places, method, value) for places, method in zip(known, methods))
        pairs = list(_pairs(upper, lower))
        named = label if value is None else f"{label}, {value}"
        if not pairs:
            comparisons.missing.append(f"{named}: {first} and {second} have no budget in common in this suite")
        for text, (one, two) in pairs[-1:] if at == "largest-epsilon" else pairs:
            _add(f"{named}, {first} − {second}{text}", [(1.0, one), (-1.0, two)], margins[0], comparisons)
            if margins[1] is not None:
                _add(f"{named}, {second} − {first}{text}", [(1.0, two), (-1.0, one)], margins[1], comparisons)


def _growing_gap(test: GrowingGap, label: str, known: Known, comparisons: Comparisons) -> None:
    for worse in test.worse:
        pairs = list(_pairs(_of(known, test.better, None), _of(known, worse, None)))
        if len(pairs) < 2:
            comparisons.missing.append(f"{label}: {test.better} and {worse} have fewer than two budgets in common")
            continue
        (first, (low_better, low_worse)), (last, (high_better, high_worse)) = pairs[0], pairs[-1]
        terms = [(1.0, high_better), (-1.0, high_worse), (-1.0, low_better), (1.0, low_worse)]
        _add(f"{label}, gap {test.better} − {worse}{last} minus the same{first}", terms, 0.0, comparisons)


def _of(known: Known, method: str, value: str | None) -> dict[float | None, Place]:
    found = [place for place in known if place[0].method_id == method]
    return {place[0].epsilon: place for place in found if place[0].value in (value, None)}


def _pairs(
    upper: dict[float | None, Place], lower: dict[float | None, Place]
) -> Iterator[tuple[str, tuple[Place, Place]]]:
    """Both methods at each common target epsilon, ascending; a method without a budget stands beside every one."""
    budgets = sorted({value for value in (*upper, *lower) if value is not None})
    targets: list[float | None] = [*budgets] if budgets else [None]
    for target in targets:
        one = upper.get(target, upper.get(None))
        two = lower.get(target, lower.get(None))
        if one is not None and two is not None:
            yield (f" at target ε = {target:g}" if target is not None else ""), (one, two)


def _curve(known: Known, method: str) -> dict[str, Place]:
    """Of a sweep, by value in the suite's order: the method at its largest target epsilon."""
    own = [place for place in known if place[0].method_id == method and place[0].value is not None]
    largest = max((place[0].epsilon or 0.0 for place in own), default=0.0)
    return {str(place[0].value): place for place in own if (place[0].epsilon or 0.0) == largest}


def _usable(where: str, curve: dict[str, Place], comparisons: Comparisons) -> bool:
    """Whether the curve has two values and all of them results; else the reason is added."""
    if len(curve) < 2:
        comparisons.missing.append(f"{where}: fewer than two values of the sweep in this suite")
        return False
    bad = [f"{value} {outcome.why_not}" for value, (_, outcome) in curve.items() if not outcome.ok]
    if bad:
        comparisons.missing.append(f"{where}: {', '.join(bad)}")
        return False
    comparisons.budgets |= dict.fromkeys(_budget(*place) for place in curve.values() if place[0].cell.privacy)
    return True


def _monotone(where: str, curve: dict[str, Place], tolerance: float, comparisons: Comparisons) -> None:
    if not _usable(where, curve, comparisons):
        return
    values = list(curve)
    ends = f"{where}, {values[-1]} minus {values[0]}"
    comparisons.found.append(compared(ends, _contrast([(1.0, curve[values[-1]]), (-1.0, curve[values[0]])]), 0.0))
    steps = [
        compared(
            f"{where}, smallest step of {len(values) - 1}: {low} to {high}",
            _contrast([(1.0, curve[high]), (-1.0, curve[low])]),
            -tolerance,
        )
        for low, high in pairwise(values)
    ]
    comparisons.found.append(all_hold(steps))


def _near_best(where: str, curve: dict[str, Place], test: NearBest, comparisons: Comparisons) -> None:
    absent = [value for value in test.values if value not in curve]
    if absent:
        comparisons.missing.append(f"{where}: value {', '.join(absent)} is not in this suite's sweep")
        return
    if not _usable(where, curve, comparisons):
        return
    for value in test.values:
        others = [
            compared(
                f"{where}, {value} minus the best, {other}",
                _contrast([(1.0, curve[value]), (-1.0, curve[other])]),
                -test.within,
            )
            for other in curve
            if other != value
        ]
        comparisons.found.append(all_hold(others))


def _smaller_range(where: str, small: dict[str, Place], large: dict[str, Place], comparisons: Comparisons) -> None:
    """max - min over `large` minus max - min over `small`, above 0.

    A range is at least the difference of any two values, and at most that of some two. So the claim holds if one pair
    of `large`, chosen by its means and paid for by the number of pairs (Bonferroni), differs by more than every pair
    of `small`; it is refuted the other way round.
    """
    if not (_usable(where, small, comparisons) and _usable(where, large, comparisons)):
        return
    top, bottom = _extremes(large)
    own_top, own_bottom = _extremes(small)
    terms = [(1.0, large[top]), (-1.0, large[bottom]), (-1.0, small[own_top]), (1.0, small[own_bottom])]
    value = _contrast(terms)
    name = f"{where}, range {top} to {bottom} minus range {own_top} to {own_bottom}"
    above, below = _range_p(large, small), _range_p(small, large)
    comparisons.found.append(Comparison(name, value.estimate, value.error, 0.0, value.n, above, below))


def _range_p(wide: dict[str, Place], narrow: dict[str, Place]) -> float:
    """p-value against "the range over `wide` is not above that over `narrow`"."""
    top, bottom = _extremes(wide)
    worst = max(
        _contrast([(1.0, wide[top]), (-1.0, wide[bottom]), (-1.0, narrow[high]), (1.0, narrow[low])]).p_above(0.0)
        for high, low in permutations(narrow, 2)
    )
    return min(1.0, len(wide) * (len(wide) - 1) * worst)


def _extremes(curve: dict[str, Place]) -> tuple[str, str]:
    """Labels of the values with the highest and the lowest mean."""
    means = {value: float(outcome.values.mean()) for value, (_, outcome) in curve.items()}
    return max(means, key=means.__getitem__), min(means, key=means.__getitem__)


def _add(where: str, terms: list[tuple[float, Place]], margin: float, comparisons: Comparisons) -> None:
    bad = [f"{entry.method_id} {outcome.why_not}" for _, (entry, outcome) in terms if not outcome.ok]
    if bad:
        comparisons.missing.append(f"{where}: {', '.join(dict.fromkeys(bad))}")
        return
    comparisons.budgets |= dict.fromkeys(_budget(*place) for _, place in terms if place[0].cell.privacy)
    comparisons.found.append(compared(where, _contrast(terms), margin))


def _contrast(terms: Iterable[tuple[float, Place]]) -> Contrast:
    return contrast(
        (weight, entry.cell.slug, 100 * outcome.values.to_numpy(float)) for weight, (entry, outcome) in terms
    )


def _budget(entry: Entry, outcome: Outcome) -> str:
    value = "" if entry.value is None else f" ({entry.value})"
    name = f"{entry.method_id}{value} on {entry.suite_task.label}"
    return f"{name}: published {epsilon(outcome.eps_published)}, rigorous {epsilon(outcome.eps_rigorous)}"


def compare_classes(test: RarerClasses, label: str, found: list[ClassValues], comparisons: Comparisons) -> None:
    """Adds the comparisons of `rarer-classes` on one task: the mean over seeds of a rank correlation."""
    references = [values for values in found if values.entry.method_id == test.reference]
    for method in test.methods:
        own = [values for values in found if values.entry.method_id == method]
        if not own or not references:
            comparisons.missing.append(f"{label}: {method} or {test.reference} is not in this suite")
            continue
        private = max(own, key=lambda values: values.entry.epsilon or 0.0)
        _one_method(test, label, private, references[0], comparisons)


def _one_method(
    test: RarerClasses, label: str, private: ClassValues, reference: ClassValues, comparisons: Comparisons
) -> None:
    entry = private.entry
    bad = [f"{one.entry.method_id} {one.outcome.why_not}" for one in (private, reference) if not one.outcome.ok]
    at = f" at target ε = {entry.epsilon:g}" if entry.epsilon is not None else ""
    where = f"{label}, {entry.method_id}{at}"
    if bad:
        comparisons.missing.append(f"{where}: {', '.join(bad)}")
        return
    correlations = rank_correlations(private, reference, test.of)
    if not len(correlations) or np.isnan(correlations).any():
        comparisons.missing.append(f"{where}: no rank correlation over {private.accuracy.shape[1]} classes")
        return
    sign, what = (1.0, "accuracy") if test.of == "accuracy" else (-1.0, f"accuracy lost to {test.reference}")
    order = "" if sign > 0 else "minus the "
    name = f"{where}, {order}rank correlation of frequency with {what}, {private.accuracy.shape[1]} classes"
    if entry.cell.privacy:
        comparisons.budgets[_budget(entry, private.outcome)] = None
    comparisons.found.append(compared(name, contrast([(sign, entry.cell.slug, correlations)]), 0.0, unit=""))
