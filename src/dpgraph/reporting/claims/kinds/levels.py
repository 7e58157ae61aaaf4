"""Claims on how high the mean of each method is: above-chance and regime."""

from __future__ import annotations

from collections.abc import Iterator

from dpgraph.config.claim_tests import AboveChance, Regime
from dpgraph.reporting.chance import METRIC as MAJORITY
from dpgraph.reporting.claims.comparing import (
    ClaimKind,
    DataSet,
    PaperResults,
    Place,
    add,
    at_target,
    chosen_targets,
    each,
    in_points,
    where_tested,
)
from dpgraph.reporting.claims.verdicts import Comparisons


def compare_with_chance(test: AboveChance, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add that each method is above the share of the largest class of the test nodes, from the same rows."""
    for where, (entry, outcome) in _places(test, data, comparisons):
        chance = suite.results.outcome(entry, MAJORITY)
        if not chance.ok:
            comparisons.missing.append(f"{where}: the share of the largest class is not known")
            continue
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
            for target in chosen_targets(at_value, test.at):
                if target in at_value:
                    yield f"{named}, {method}{at_target(target)}", at_value[target]
                else:
                    comparisons.missing.append(f"{named}, {method}{at_target(target)}: not in this suite")


def _regime_holds(test: Regime) -> str:
    least = f"above {test.least:g}" if test.within is None else f"less than {in_points(test.within)} below print"
    return f"{each(test.methods)} is {least}{where_tested(test)}"


def _fails(test: AboveChance | Regime) -> str:
    return f"one of them does not{where_tested(test, against=True)}"


KINDS = (
    ClaimKind(
        AboveChance,
        compare_with_chance,
        lambda test: f"{each(test.methods)} is above the share of the largest class{where_tested(test)}",
        _fails,
    ),
    ClaimKind(Regime, compare_with_print, _regime_holds, _fails),
)
