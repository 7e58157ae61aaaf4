"""What the tests of claims share: places of an artefact, and weighted sums of their means as comparisons."""

from __future__ import annotations

from collections.abc import Iterable
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
    comparisons.made.append(compared(where, contrast_of(terms), margin))


def contrast_of(terms: Iterable[tuple[float, Place]]) -> Contrast:
    terms = list(terms)
    value = contrast(
        (weight, entry.cell.slug, outcome.quantity.scale * outcome.values) for weight, (entry, outcome) in terms
    )
    printed = [(weight, outcome.printed) for weight, (_, outcome) in terms]
    known = all(number is not None for _, number in printed)
    return replace(
        value,
        unit=terms[0][1][1].quantity.difference,
        printed=sum(weight * (number or 0.0) for weight, number in printed) if known else None,
    )
