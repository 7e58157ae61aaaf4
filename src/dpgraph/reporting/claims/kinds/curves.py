"""Claims on curves of one method, over the values of a sweep or over ε: monotone, constant.

near-best compares values of a sweep with its best one, smaller-range the ranges of two sweeps; rise-and-fall is along
the steps of training.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise, permutations

import pandas as pd

from dpgraph.config.claim_tests import Constant, Curve, Monotone, NearBest, RiseAndFall, SmallerRange
from dpgraph.reporting.claims import comparing
from dpgraph.reporting.claims.comparing import ClaimKind, DataSet, PaperResults, each, in_points, where_tested
from dpgraph.reporting.claims.contrasts import Above, Contrast, contrast
from dpgraph.reporting.claims.verdicts import Comparison, Comparisons, Place, all_hold, compared, picked
from dpgraph.reporting.quantities import quantity

Points = dict[str, Place]  # one curve, by label


def compare_curves(test: Curve, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add the test's comparisons on the curves of each method, between the labels that the test names."""
    for method in test.methods:
        where, curves = f"{data.label}, {method}", _curves(test, data.places(test.artefact), method)
        for at, points in [one for one in curves if _whole(test, one[1])] or curves:
            part = _between(where + at, points, test, comparisons)
            if part is not None and _usable(where + at, part, comparisons):
                comparisons.made += _on_curve(test, where + at, part)


def compare_near_best(test: NearBest, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add, for each method and value of the test, that it is less than `within` below each other value."""
    for method in test.methods:
        for at, points in _over_values(data.places(test.artefact), method, test.at):
            _near_best(f"{data.label}, {method}{at}", points, test, comparisons)


def compare_ranges(test: SmallerRange, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add, for each method, that its range over the second artefact is above that over the first one."""
    for method in test.methods:
        where = f"{data.label}, {method}"
        small, large = (curve(data.places(name), method, "largest-epsilon") for name in (test.artefact, test.than))
        if _usable(where, small, comparisons) and _usable(where, large, comparisons):
            comparisons.made.append(_smaller_range(where, small, large))


def can_be_drawn(test: Curve, data: DataSet) -> bool:
    """Return whether each method of the test has a curve of two points or more, the named ends among them."""
    known = data.places(test.artefact)
    return all(any(_whole(test, points) for _, points in _curves(test, known, method)) for method in test.methods)


def _curves(test: Curve, known: comparing.Known, method: str) -> list[tuple[str, Points]]:
    return _over_values(known, method, test.at) if test.over == "values" else _over_epsilon(known, method, test)


def _whole(test: Curve, points: Points) -> bool:
    return len(points) > 1 and all(end is None or end in points for end in (test.start, test.end))


def _on_curve(test: Curve, where: str, points: Points) -> list[Comparison]:
    match test:
        case Monotone():
            return _monotone(where, points, test)
        case Constant():
            return [_constant(where, points, test.within)]
    raise TypeError(f"{type(test).__name__}: expected a test on curves")


def curve(known: comparing.Known, method: str, at: str) -> Points:
    """Return the places of a method by value of the sweep, in the suite's order, at one target epsilon."""
    curves = _over_values(known, method, at)
    return curves[0][1] if curves else {}


def _over_values(known: comparing.Known, method: str, at: str | tuple[float, ...]) -> list[tuple[str, Points]]:
    own = [place for place in known if place[0].method_id == method and place[0].value is not None]
    curves: list[tuple[str, Points]] = []
    for target in comparing.chosen_targets((entry.target_epsilon for entry, _ in own), at):
        points = {str(place[0].value): place for place in own if place[0].target_epsilon == target}
        curves.append(("" if at == "largest-epsilon" else comparing.at_target(target), points))
    return curves


def _over_epsilon(known: comparing.Known, method: str, test: Curve) -> list[tuple[str, Points]]:
    own = [place for place in known if place[0].method_id == method and place[0].target_epsilon is not None]
    values = dict.fromkeys(place[0].value for place in own) if test.values is None else dict.fromkeys(test.values)
    curves = []
    for value in values or {None: None}:
        at_value = sorted(
            (place for place in own if place[0].value == value), key=lambda place: place[0].target_epsilon or 0
        )
        points = {f"{place[0].target_epsilon:g}": place for place in at_value}
        curves.append((("" if value is None else f", {value}") + " over ε", points))
    return curves


def _between(where: str, points: Points, test: Curve, comparisons: Comparisons) -> Points | None:
    labels = list(points)
    absent = [end for end in (test.start, test.end) if end is not None and end not in points]
    if absent:
        comparisons.missing.append(f"{where}: {', '.join(absent)} is not in this suite")
        return None
    first = 0 if test.start is None else labels.index(test.start)
    last = len(labels) if test.end is None else labels.index(test.end) + 1
    return {name: points[name] for name in labels[first:last]}


def _usable(where: str, points: Points, comparisons: Comparisons) -> bool:
    """Return whether the curve has two points, and all of them results; else add the reason."""
    if len(points) < 2:
        what = "target epsilons" if where.endswith("over ε") else "values of the sweep"
        comparisons.missing.append(f"{where}: fewer than two {what} in this suite")
        return False
    if comparisons.lack(where, ((value, outcome) for value, (_, outcome) in points.items())):
        return False
    comparisons.use(*points.values())
    return True


def _minus(points: Points, one: str, two: str) -> Contrast:
    return comparing.contrast_of([(1.0, points[one]), (-1.0, points[two])])


def _monotone(where: str, points: Points, test: Monotone) -> list[Comparison]:
    values = list(points) if test.direction == "rising" else list(reversed(points))
    low, high = values[0], values[-1]
    parts = [compared(f"{where}, {high} minus {low}", _minus(points, high, low), test.by)]
    if test.tolerance is not None:
        name = f"{where}, weakest of {len(values) - 1} steps"
        steps = [
            compared(f"{name}: {one} to {two}", _minus(points, two, one), -test.tolerance)
            for one, two in pairwise(values)
        ]
        parts.append(all_hold(steps))
    return parts


def _constant(where: str, points: Points, within: float) -> Comparison:
    """Return `within` minus the largest difference: every ordered pair differs by less."""
    pairs = [
        # equal in the alternative, whatever is printed: a printed difference would agree in one direction only
        compared(f"{where}, {one} minus {two}", replace(_minus(points, one, two), printed=None), -within)
        for one, two in permutations(points, 2)
    ]
    return all_hold(pairs)


def _peak(where: str, means: Mapping[str, float], minus: Callable[[str, str], Contrast]) -> Comparison:
    """Return the value inside with the highest mean minus the better end, above 0.

    means: by label, in order. minus: the contrast of one label's value minus another's.

    The best of k values inside is picked by its mean, for which Bonferroni's factor k corrects; likewise the better of
    the two ends where the claim is refuted.
    """
    labels = list(means)
    inside, ends = labels[1:-1], (labels[0], labels[-1])
    top, end = max(inside, key=means.__getitem__), max(ends, key=means.__getitem__)
    above = len(inside) * max(minus(top, other).p_above(0.0) for other in ends)
    below = 2 * max(minus(end, other).p_above(0.0) for other in inside)
    name = f"{where}, best inside {top} minus the better end {end}"
    ways = tuple(tuple(Above(minus(one, other), 0.0) for other in ends) for one in inside)
    return picked(name, minus(top, end), (above, below), ways)


def _near_best(where: str, points: Points, test: NearBest, comparisons: Comparisons) -> None:
    absent = [value for value in test.values if value not in points]
    if absent:
        comparisons.missing.append(f"{where}: value {', '.join(absent)} is not in this suite's sweep")
        return
    if not _usable(where, points, comparisons):
        return
    for value in test.values:
        others = [
            compared(f"{where}, {value} minus the best, {other}", _minus(points, value, other), -test.within)
            for other in points
            if other != value
        ]
        comparisons.made.append(all_hold(others))


def _smaller_range(where: str, small: Points, large: Points) -> Comparison:
    """Return max - min over `large` minus max - min over `small`, above 0.

    A range is at least the difference of any two values, and at most that of some two. So the claim holds if one pair
    of `large`, chosen by its means and corrected by the number of pairs (Bonferroni), differs by more than every pair
    of `small`; it is refuted the other way round.
    """
    top, bottom = _extremes(large)
    own_top, own_bottom = _extremes(small)
    value = _difference_of_ranges(large, small, (top, bottom), (own_top, own_bottom))
    name = f"{where}, range {top} to {bottom} minus range {own_top} to {own_bottom}"
    above, below = _range_p(large, small), _range_p(small, large)
    every = {
        (one, other): Above(_difference_of_ranges(large, small, one, other), 0.0)
        for one in permutations(large, 2)
        for other in permutations(small, 2)
    }
    ways = tuple(tuple(every[one, other] for other in permutations(small, 2)) for one in permutations(large, 2))
    return picked(name, value, (above, below), ways)


def _difference_of_ranges(
    large: Points, small: Points, of_large: tuple[str, str], of_small: tuple[str, str]
) -> Contrast:
    """Return the difference of two values of `large` minus that of two of `small`.

    Where the paper does not print both values of `small`, these differ by its printed range in the alternative.
    """
    (a, b), (c, d) = of_large, of_small
    value = comparing.contrast_of([(1.0, large[a]), (-1.0, large[b]), (-1.0, small[c]), (1.0, small[d])])
    if value.printed is not None:
        return value
    wide = comparing.contrast_of([(1.0, large[a]), (-1.0, large[b])])
    pairs = [_minus(small, one, other) for one, other in permutations(small, 2)]
    printed = [pair.printed for pair in pairs if pair.printed is not None]
    if wide.printed is None or not printed:
        return value
    return replace(value, printed=wide.printed - max(printed), printed_elsewhere=wide.printed_elsewhere)


def _range_p(wide: Points, narrow: Points) -> float:
    """Return the p-value against "the range over `wide` is not above that over `narrow`"."""
    every = (_difference_of_ranges(wide, narrow, _extremes(wide), pair) for pair in permutations(narrow, 2))
    worst = max(value.p_above(0.0) for value in every)
    return min(1.0, len(wide) * (len(wide) - 1) * worst)


def _extremes(points: Points) -> tuple[str, str]:
    """Return the labels of the values with the highest and the lowest mean."""
    means = {value: float(outcome.values.mean()) for value, (_, outcome) in points.items()}
    return max(means, key=means.__getitem__), min(means, key=means.__getitem__)


FEWEST = 3  # evaluations: the ends and one between


def compare_along(test: RiseAndFall, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add `rise_and_fall` of each place of the data set, or why it cannot be compared."""
    metric = suite.plan.artefacts[suite.full_name(test.artefact)].metric
    for entry, outcome in data.places(test.artefact):
        where = f"{data.label}, {entry.method_id}{comparing.at_target(entry.target_epsilon)}"
        if not outcome.ok:
            comparisons.missing.append(f"{where}: {outcome.why_not}")
            continue
        looks = {step: one.shown_by_seed for step, one in suite.results.along_training(entry, metric)}
        made = rise_and_fall(where, pd.DataFrame(looks), quantity(metric).difference)
        if made is None:
            comparisons.missing.append(f"{where}: fewer than {FEWEST} evaluations at which all seeds have a value")
            continue
        comparisons.use((entry, outcome))
        comparisons.made.append(made)


def rise_and_fall(where: str, by_step: pd.DataFrame, unit: str) -> Comparison | None:
    """Return the comparison of the peak along training with both ends; None for too few steps.

    by_step: values in the unit that is shown, a row for each seed and a column for each step.
    """
    whole = by_step.dropna(axis=1).sort_index(axis=1)
    if whole.shape[1] < FEWEST:
        return None
    values = {str(step): whole[step] for step in whole}

    def minus(one: str, two: str) -> Contrast:
        return replace(contrast([(1.0, one, values[one]), (-1.0, two, values[two])]), unit=unit)

    return _peak(f"{where}, by steps", {step: float(each.mean()) for step, each in values.items()}, minus)


def _named(test: Curve) -> str:
    return f"{each(test.methods)} over {'ε' if test.over == 'epsilon' else 'the sweep'}"


def _ends(test: Curve) -> str:
    return f" from {test.start or 'its first value'} to {test.end or 'its last'}" if test.start or test.end else ""


def _monotone_holds(test: Monotone) -> str:
    more = f" by more than {in_points(test.by)}" if test.by else ""
    steps = f", no step by {in_points(test.tolerance)} or more the other way" if test.tolerance else ""
    verb = "rises" if test.direction == "rising" else "falls"
    return f"{_named(test)} {verb}{_ends(test)}{more}{steps}{where_tested(test)}"


def _monotone_fails(test: Monotone) -> str:
    steps = f", or a step goes the other way by more than {in_points(test.tolerance)}" if test.tolerance else ""
    where = where_tested(test, against=True)
    return f"the ends differ by less than {in_points(test.by)}, or the other way{steps}{where}"


def _near_best_holds(test: NearBest) -> str:
    less = f"less than {in_points(test.within)} below its best value"
    return f"{each(test.methods)} at {', '.join(test.values)} is {less}{where_tested(test)}"


KINDS = (
    ClaimKind(Monotone, compare_curves, _monotone_holds, _monotone_fails, can_be_drawn),
    ClaimKind(
        Constant,
        compare_curves,
        lambda test: (
            f"any two values of {_named(test)}{_ends(test)} differ by less than {in_points(test.within)}"
            + where_tested(test)
        ),
        lambda test: f"two values differ by more than {in_points(test.within)}{where_tested(test, against=True)}",
        can_be_drawn,
    ),
    ClaimKind(
        NearBest,
        compare_near_best,
        _near_best_holds,
        lambda test: (
            f"one of these values is more than {in_points(test.within)} below another"
            + where_tested(test, against=True)
        ),
    ),
    ClaimKind(
        SmallerRange,
        compare_ranges,
        lambda test: f"{each(test.methods)} varies less in {test.artefact} than in {test.than}{where_tested(test)}",
        lambda test: f"the range in {test.artefact} is the larger one{where_tested(test, against=True)}",
    ),
    ClaimKind(
        RiseAndFall,
        compare_along,
        lambda test: f"in {test.artefact} {each(test.methods)} is higher at some evaluation than at its first and last",
        lambda test: f"in {test.artefact} the first or the last evaluation is higher than all between",
    ),
)
