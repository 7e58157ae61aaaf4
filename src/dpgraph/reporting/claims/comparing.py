"""What the tests of claims share: places of an artefact, and weighted sums of their means as comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpgraph.reporting.claims.contrasts import Contrast, contrast
from dpgraph.reporting.claims.verdicts import Comparisons, Place, compared

Known = list[Place]  # of one task


def chosen_targets(targets: Iterable[float | None], at: str | tuple[float, ...]) -> list[float | None]:
    """Target epsilons that a test looks at, ascending; [None] where there are none.

    >>> chosen_targets([2.0, None, 1.0], "largest-epsilon"), chosen_targets([2.0, 1.0], (1.0, 8.0))
    ([2.0], [1.0, 8.0])
    """
    budgets: list[float | None] = [*sorted({value for value in targets if value is not None})]
    if isinstance(at, tuple):
        return [*at] if budgets else [None]
    if not budgets:
        return [None]
    return budgets[-1:] if at == "largest-epsilon" else budgets


def at_target(target: float | None) -> str:
    return "" if target is None else f" at target ε = {target:g}"


def add(where: str, terms: list[tuple[float, Place]], margin: float, comparisons: Comparisons) -> None:
    """Adds that the weighted sum of the places' means is above `margin`, or why it cannot be compared."""
    bad = [f"{entry.method_id} {outcome.why_not}" for _, (entry, outcome) in terms if not outcome.ok]
    if bad:
        comparisons.missing.append(f"{where}: {', '.join(dict.fromkeys(bad))}")
        return
    comparisons.use(*(place for _, place in terms))
    value = contrast_of(terms)
    if margin < 0 and value.difference:  # that two things do not differ: in the alternative they are equal
        value = replace(value, printed=None)
    comparisons.made.append(compared(where, value, margin))


def contrast_of(terms: Iterable[tuple[float, Place]]) -> Contrast:
    """Of (weight, place) terms, in the unit that is shown, with the same of the paper's printed numbers.

    One cell has a sample for each of its metrics.
    """
    terms = list(terms)
    value = contrast(
        (weight, f"{entry.cell.slug} {outcome.metric}", outcome.quantity.scale * outcome.values)
        for weight, (entry, outcome) in terms
    )
    printed = _printed(terms)
    entries = [entry for _, (entry, _) in terms]
    return replace(
        value,
        unit=terms[0][1][1].quantity.difference,
        printed=printed,
        difference=abs(sum(weight for weight, _ in terms)) < 1e-3,  # weights are written with few digits
        printed_elsewhere=printed is not None and all(entry.suite_task.published is None for entry in entries),
        by_data_set=_by_data_set(terms),
    )


def _printed(terms: Sequence[tuple[float, Place]]) -> float | None:
    """Of single data sets of the paper's; else the mean over the data sets for which all terms are printed."""
    numbers = [outcome.printed for _, (_, outcome) in terms]
    single = [getattr(outcome, "members", ()) == () for _, (_, outcome) in terms]
    own = [one.get(entry.suite_task.published or "") for (_, (entry, _)), one in zip(terms, numbers)]
    if all(single) and any(entry.suite_task.published for _, (entry, _) in terms):
        return None if None in own else sum(weight * (one or 0.0) for (weight, _), one in zip(terms, own))
    shared = [name for name in numbers[0] if all(name in one for one in numbers)]
    if not shared:
        return None
    sums = [sum(weight * one[name] for (weight, _), one in zip(terms, numbers)) for name in shared]
    return sum(sums) / len(sums)


def _by_data_set(terms: Sequence[tuple[float, Place]]) -> dict[str, float]:
    """The estimate on each data set of a mean; empty where it is of none."""
    sums: dict[str, float] = {}
    for weight, (_, outcome) in terms:
        for entry, member in getattr(outcome, "members", ()):
            label = entry.suite_task.label
            sums[label] = sums.get(label, 0.0) + weight * float(member.shown.mean())
    return sums
