"""Claims on means of methods.

greater, similar, growing-gap and acted compare two methods at a time; above-chance and regime say how high a mean is;
weighted-sum compares drops, or shares of another method's accuracy.
"""

from collections.abc import Iterator
from dataclasses import replace

from dpgraph.config import claim_tests
from dpgraph.config.claim_tests import AboveChance, Acted, Greater, GrowingGap, Regime, Similar, WeightedSum
from dpgraph.reporting.chance import METRIC as MAJORITY
from dpgraph.reporting.claims import comparing
from dpgraph.reporting.claims.comparing import ClaimKind, DataSet, PaperResults, add, each, in_points, where_tested
from dpgraph.reporting.claims.verdicts import Comparisons, Place

NAMED = 4  # terms of a longer sum that its comparison names, half of them of each sign
ByTarget = dict[float | None, Place]  # of one method, by target epsilon


def compare_greater(test: Greater, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add each difference of a better and a worse method, above the margin."""
    known = data.places(test.artefact), data.places(test.worse_in or test.artefact)
    for better in test.better:
        for worse in test.worse:
            _differences(test, data.label, (better, worse), known, (test.margin, None), comparisons)


def compare_similar(test: Similar, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add both differences of each pair, above minus the margin."""
    known = data.places(test.artefact), data.places(test.second_in or test.artefact)
    for pair in test.pairs:
        _differences(test, data.label, pair, known, (-test.within, -test.within), comparisons)


def _differences(
    test: Greater | Similar,
    label: str,
    methods: tuple[str, str],
    known: tuple[comparing.Known, comparing.Known],
    margins: tuple[float, float | None],
    comparisons: Comparisons,
) -> None:
    """Add first minus second above margins[0]; where margins[1] is given, second minus first above it, too."""
    first, second = methods
    for value in dict.fromkeys(entry.value for entry, _ in known[0]) if test.values is None else test.values:
        upper, lower = (_by_target(places, method, value) for places, method in zip(known, methods))
        pairs = dict(_pairs(upper, lower))
        named = label if value is None else f"{label}, {value}"
        if not pairs:
            comparisons.missing.append(f"{named}: {first} and {second} have no budget in common in this suite")
            continue
        for target in comparing.chosen_targets(pairs, test.at):
            text = comparing.at_target(target)
            if target not in pairs:
                comparisons.missing.append(f"{named}, {first} − {second}{text}: not in this suite")
                continue
            one, two = pairs[target]
            add(f"{named}, {first} − {second}{text}", [(1.0, one), (-1.0, two)], margins[0], comparisons)
            if margins[1] is not None:
                add(f"{named}, {second} − {first}{text}", [(1.0, two), (-1.0, one)], margins[1], comparisons)


def compare_gaps(test: GrowingGap, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add, for each worse method, the gap at the largest common epsilon minus the gap at the smallest."""
    known, label = data.places(test.artefact), data.label
    for worse in test.worse:
        own = _pairs(_by_target(known, test.better, None), _by_target(known, worse, None))
        pairs = [(comparing.at_target(target), pair) for target, pair in own]
        if len(pairs) < 2:
            comparisons.missing.append(f"{label}: {test.better} and {worse} have fewer than two budgets in common")
            continue
        (first, (low_better, low_worse)), (last, (high_better, high_worse)) = pairs[0], pairs[-1]
        terms = [(1.0, high_better), (-1.0, high_worse), (-1.0, low_better), (1.0, low_worse)]
        add(f"{label}, gap {test.better} − {worse}{last} minus the same{first}", terms, 0.0, comparisons)


def compare_acted(test: Acted, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add that the two methods of each pair differ: a factor that never acts gives the same numbers seed by seed."""
    for first, second in test.pairs:
        one, two = (_by_target(data.places(test.artefact), method, None) for method in (first, second))
        pairs = dict(_pairs(one, two))
        if not pairs:
            comparisons.missing.append(f"{data.label}: {first} and {second} have no budget in common in this suite")
        for target in comparing.chosen_targets(pairs, test.at) if pairs else []:
            where = f"{data.label}, |{first} − {second}|{comparing.at_target(target)}"
            if comparisons.lack(where, ((entry.method_id, outcome) for entry, outcome in pairs[target])):
                continue
            (entry, outcome), (_, other) = pairs[target]
            apart = replace(outcome, values=(outcome.values - other.values).abs().dropna(), printed={})
            add(where, [(1.0, (entry, apart))], 0.0, comparisons)


def _by_target(known: comparing.Known, method: str, value: str | None) -> ByTarget:
    own = [place for place in known if place[0].method_id == method]
    return {place[0].target_epsilon: place for place in own if place[0].value in (value, None)}


def _pairs(upper: ByTarget, lower: ByTarget) -> Iterator[tuple[float | None, tuple[Place, Place]]]:
    """Yield both methods at each common target, ascending; a method without a budget is compared at every one."""
    for target in comparing.chosen_targets([*upper, *lower], "every-epsilon"):
        one = upper.get(target, upper.get(None))
        two = lower.get(target, lower.get(None))
        if one is not None and two is not None:
            yield target, (one, two)


def _greater_holds(test: Greater) -> str:
    return f"{each(test.better)} is {_above(test.margin)} {each(test.worse)}{where_tested(test)}"


def _above(margin: float) -> str:
    if margin > 0:
        return f"more than {in_points(margin)} above"
    return "above" if margin == 0 else f"less than {in_points(-margin)} below, or above,"


def _greater_fails(test: Greater) -> str:
    limit = f"less than {in_points(test.margin)} above" if test.margin > 0 else "below"
    if test.margin < 0:
        limit = f"more than {in_points(-test.margin)} below"
    return (
        f"{comparing.any_of(test.better)} is {limit} {comparing.any_of(test.worse)}{where_tested(test, against=True)}"
    )


def _pairs_said(test: Similar | Acted) -> str:
    return ", ".join(f"{one} and {two}" for one, two in test.pairs)


def compare_with_chance(test: AboveChance, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add that each method is above the share of the largest class of the test nodes, from the same rows."""
    for where, (entry, outcome) in _places(test, data, comparisons):
        chance = suite.results.outcome(entry, MAJORITY)
        add(f"{where} − chance", [(1.0, (entry, outcome)), (-1.0, (entry, chance))], 0.0, comparisons)


def compare_with_print(test: Regime, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add that each method is above `least`, or less than `within` below what the paper prints."""
    for where, (entry, outcome) in _places(test, data, comparisons):
        printed = outcome.printed.get(entry.suite_task.published or "")
        if test.within is not None and printed is None:
            comparisons.missing.append(f"{where}: the paper prints no number for it")
            continue
        least = float(printed or 0.0) - test.within if test.within is not None else float(test.least or 0.0)
        add(where, [(1.0, (entry, outcome))], least, comparisons)


def _places(test: AboveChance | Regime, data: DataSet, comparisons: Comparisons) -> Iterator[tuple[str, Place]]:
    """Yield each place of the test's methods at its targets, with words for where it is."""
    for method in test.methods:
        own = [place for place in data.places(test.artefact) if place[0].method_id == method]
        own = [place for place in own if test.values is None or place[0].value in test.values]
        if not own:
            comparisons.missing.append(f"{data.label}, {method}: not in this suite")
        for value in dict.fromkeys(entry.value for entry, _ in own):
            at_value = {place[0].target_epsilon: place for place in own if place[0].value == value}
            named = data.label if value is None else f"{data.label}, {value}"
            for target in comparing.chosen_targets(at_value, test.at):
                if target in at_value:
                    yield f"{named}, {method}{comparing.at_target(target)}", at_value[target]
                else:
                    comparisons.missing.append(f"{named}, {method}{comparing.at_target(target)}: not in this suite")


def _regime_holds(test: Regime) -> str:
    least = f"above {test.least:g}" if test.within is None else f"less than {in_points(test.within)} below print"
    return f"{each(test.methods)} is {least}{where_tested(test)}"


def _not_so(test: AboveChance | Regime) -> str:
    return f"one of them does not{where_tested(test, against=True)}"


def compare_weighted_sum(test: WeightedSum, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add the one comparison of a weighted sum."""
    terms, names = [], []
    for term in test.terms:
        own, target = _of_term(term, data.places(term.artefact or test.artefact, term.task))
        task = "" if term.task is None else f" on {term.task}"
        value = "" if term.value is None else f" ({term.value})"
        name = f"{term.method}{value}{task}{comparing.at_target(target)}"
        if target not in own:
            comparisons.missing.append(f"{data.label}: {name} is not in this suite")
            return
        terms.append((term.times, own[target]))
        weight = "" if abs(term.times) == 1 else f"{abs(term.times):g} "
        names.append((abs(term.times), f"{_sign(term)} {weight}{name}"))
    add(f"{data.label}, {_total(names)}".removeprefix(", "), terms, test.above, comparisons)


def has_terms(test: WeightedSum, data: DataSet) -> bool:
    """Return whether the suite has every term on the data set."""
    found = (_of_term(term, data.places(term.artefact or test.artefact, term.task)) for term in test.terms)
    return all(target in own for own, target in found)


def _of_term(term: claim_tests.WeightedMean, known: comparing.Known) -> tuple[dict[float | None, Place], float | None]:
    """Return the places of the term's method and value by target epsilon, and the target that is meant."""
    own = {
        entry.target_epsilon: (entry, outcome)
        for entry, outcome in known
        if (entry.method_id, entry.value) == (term.method, term.value)
    }
    return own, comparing.chosen_targets(own, "largest-epsilon" if term.epsilon is None else (term.epsilon,))[0]


def _total(names: list[tuple[float, str]]) -> str:
    """Return the sum in words, given each term's absolute weight and name; of a long one the heaviest of each sign.

    >>> _total([(1, "+ a"), (1, "− b")]), _total([(1, "+ a"), (2, "+ 2 b"), (1, "+ c"), (1, "− d"), (3, "− 3 e")])
    ('a − b', '2 b + a − 3 e − d … (5 terms)')
    """
    shown = [name for _, name in names]
    if len(names) > NAMED:
        heaviest = [name for _, name in sorted(names, key=lambda one: -one[0])]
        of_sign = ([name for name in heaviest if name.startswith(sign)] for sign in "+−")
        shown = [*(name for some in of_sign for name in some[: NAMED // 2]), f"… ({len(names)} terms)"]
    return " ".join(shown).removeprefix("+ ")


def _sign(term: claim_tests.WeightedMean) -> str:
    return "−" if term.times < 0 else "+"


def _named_places(test: WeightedSum) -> tuple[tuple[str, str], ...]:
    named = ((term.artefact or test.artefact, term.task) for term in test.terms if term.task is not None)
    return tuple(dict.fromkeys(named))


def _where(test: WeightedSum, against: bool = False) -> str:
    return "" if _named_places(test) else where_tested(test, against)


def _sum_holds(test: WeightedSum) -> str:
    terms = " ".join(
        f"{_sign(term)} {abs(term.times):g} {term.method}".replace(" 1 ", " ", 1)
        + "".join(f" ({text})" for text in (term.value, term.task) if text)
        + (f" at ε = {term.epsilon:g}" if term.epsilon is not None else "")
        for term in test.terms
    )
    if _minus_one_mean(test):
        return f"{terms.removeprefix('− ')} is below {in_points(-test.above)}{_where(test)}"
    return f"{terms.removeprefix('+ ')} is above {in_points(test.above)}{_where(test)}"


def _sum_fails(test: WeightedSum) -> str:
    below, margin = ("above", -test.above) if _minus_one_mean(test) else ("below", test.above)
    return f"it is {below} {in_points(margin)}{_where(test, against=True)}"


def _minus_one_mean(test: WeightedSum) -> bool:
    """Return whether the test is that one mean is below a margin."""
    return [term.times for term in test.terms] == [-1.0]


KINDS = (
    ClaimKind(Greater, compare_greater, _greater_holds, _greater_fails),
    ClaimKind(
        Similar,
        compare_similar,
        lambda test: f"{_pairs_said(test)} differ by less than {in_points(test.within)}{where_tested(test)}",
        lambda test: f"one pair differs by more than {in_points(test.within)}{where_tested(test, against=True)}",
    ),
    ClaimKind(
        GrowingGap,
        compare_gaps,
        lambda test: (
            f"{test.better} gains on {each(test.worse)} from the smallest ε to the largest" + where_tested(test)
        ),
        lambda test: f"the gap to {comparing.any_of(test.worse)} shrinks{where_tested(test, against=True)}",
    ),
    ClaimKind(
        Acted,
        compare_acted,
        lambda test: f"{_pairs_said(test)} differ from seed to seed{where_tested(test)}",
        lambda test: f"one of them does not{where_tested(test, against=True)}",
    ),
    ClaimKind(
        AboveChance,
        compare_with_chance,
        lambda test: f"{each(test.methods)} is above the share of the largest class{where_tested(test)}",
        _not_so,
    ),
    ClaimKind(Regime, compare_with_print, _regime_holds, _not_so),
    ClaimKind(WeightedSum, compare_weighted_sum, _sum_holds, _sum_fails, has_terms, _named_places),
)
