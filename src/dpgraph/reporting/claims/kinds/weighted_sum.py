"""Claims that a weighted sum of means is above a limit: what compares drops, or shares of another method's accuracy."""

from __future__ import annotations

from dpgraph.config.claim_tests import WeightedMean, WeightedSum
from dpgraph.reporting.claims.comparing import (
    ClaimKind,
    DataSet,
    Known,
    PaperResults,
    Place,
    add,
    at_target,
    chosen_targets,
    in_points,
    where_tested,
)
from dpgraph.reporting.claims.verdicts import Comparisons


def compare_weighted_sum(test: WeightedSum, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add the one comparison of a weighted sum."""
    terms, names = [], []
    for term in test.terms:
        own, target = _by_target(term, data.places(term.artefact or test.artefact, term.task))
        task = "" if term.task is None else f" on {term.task}"
        value = "" if term.value is None else f" ({term.value})"
        name = f"{term.method}{value}{task}{at_target(target)}"
        if target not in own:
            comparisons.missing.append(f"{data.label}: {name} is not in this suite")
            return
        terms.append((term.times, own[target]))
        weight = "" if abs(term.times) == 1 else f"{abs(term.times):g} "
        names.append(f"{_sign(term)} {weight}{name}")
    add(f"{data.label}, {' '.join(names).removeprefix('+ ')}".removeprefix(", "), terms, test.above, comparisons)


def has_terms(test: WeightedSum, data: DataSet) -> bool:
    """Return whether the suite has every term on the data set."""
    found = (_by_target(term, data.places(term.artefact or test.artefact, term.task)) for term in test.terms)
    return all(target in own for own, target in found)


def _by_target(term: WeightedMean, known: Known) -> tuple[dict[float | None, Place], float | None]:
    """Return the places of the term's method and value by target epsilon, and the target that is meant."""
    own = {
        entry.target_epsilon: (entry, outcome)
        for entry, outcome in known
        if (entry.method_id, entry.value) == (term.method, term.value)
    }
    return own, chosen_targets(own, "largest-epsilon" if term.epsilon is None else (term.epsilon,))[0]


def _sign(term: WeightedMean) -> str:
    return "−" if term.times < 0 else "+"


def _named_places(test: WeightedSum) -> tuple[tuple[str, str], ...]:
    named = ((term.artefact or test.artefact, term.task) for term in test.terms if term.task is not None)
    return tuple(dict.fromkeys(named))


def _where(test: WeightedSum, against: bool = False) -> str:
    return "" if _named_places(test) else where_tested(test, against)


def _holds(test: WeightedSum) -> str:
    terms = " ".join(
        f"{_sign(term)} {abs(term.times):g} {term.method}"
        + "".join(f" ({text})" for text in (term.value, term.task) if text)
        + (f" at ε = {term.epsilon:g}" if term.epsilon is not None else "")
        for term in test.terms
    )
    return f"{terms.removeprefix('+ ')} is above {in_points(test.above)}{_where(test)}"


def _fails(test: WeightedSum) -> str:
    return f"it is below {in_points(test.above)}{_where(test, against=True)}"


KINDS = (ClaimKind(WeightedSum, compare_weighted_sum, _holds, _fails, has_terms, _named_places),)
