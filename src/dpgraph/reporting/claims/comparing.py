"""Parts of all kinds of tests: places of an artefact, comparisons of weighted sums of their means, and phrases."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.contrasts import Contrast, contrast
from dpgraph.reporting.claims.verdicts import Comparisons, Place, compared
from dpgraph.reporting.results import Results

Known = list[Place]  # of one task
Knowns = Mapping[str, Known]  # of one task, by artefact


@dataclass(frozen=True)
class PaperResults:
    """The results of a suite, from which the claims of one paper are decided."""

    plan: Plan
    paper: str
    results: Results

    def full_name(self, artefact: str) -> str:
        """Return the name of an artefact in the plan, with its paper."""
        return f"{self.paper}/{artefact}"


@dataclass(frozen=True)
class DataSet:
    """The places that a test compares: those of one task, or their means over several tasks."""

    label: str
    knowns: Knowns
    task_ids: tuple[str, ...] = ()
    by_name: Mapping[str, Knowns] | None = None  # of tasks that the test itself names

    def places(self, artefact: str, task: str | None = None) -> Known:
        """Return the places of an artefact (without its paper), on the task that a term names."""
        return (self.knowns if task is None or self.by_name is None else self.by_name[task])[artefact]


@dataclass(frozen=True)
class ClaimKind:
    """A way to decide claims of one kind: a module of `claims/kinds` declares it for a test of `config.claim_tests`."""

    test: type
    compare: Callable[[Any, PaperResults, Any, Comparisons], None]  # adds the test's comparisons on a data set
    holds: Callable[[Any], str]  # what would reproduce the claim, in words
    fails: Callable[[Any], str]  # what would contradict it
    has_points: Callable[[Any, DataSet], bool] = lambda test, data: has_targets(test, data)
    named_places: Callable[[Any], tuple[tuple[str, str], ...]] = lambda _: ()  # (artefact, task) that its terms name
    together: bool = False  # whether `compare` takes all data sets at once

    def run(self, test: Any, suite: PaperResults, data_sets: Sequence[DataSet], comparisons: Comparisons) -> None:
        """Add the comparisons of a test on all data sets."""
        for data in [data_sets] if self.together else data_sets:
            self.compare(test, suite, data, comparisons)


def has_targets(test: Any, data: DataSet) -> bool:
    """Return whether a data set has the target epsilons that the test names."""
    at = getattr(test, "at", None)
    return not isinstance(at, tuple) or set(at) <= {entry.target_epsilon for entry, _ in data.places(test.artefact)}


def chosen_targets(targets: Iterable[float | None], at: str | tuple[float, ...]) -> list[float | None]:
    """Return the target epsilons that a test compares at, ascending; [None] where there are none.

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
    """Add the comparison that the weighted sum of the places' means is above `margin`, or why it cannot be made."""
    if comparisons.lack(where, ((entry.method_id, outcome) for _, (entry, outcome) in terms)):
        return
    comparisons.use(*(place for _, place in terms))
    value = contrast_of(terms)
    if margin < 0 and value.difference:  # that two things do not differ: in the alternative they are equal
        value = replace(value, printed=None)
    comparisons.made.append(compared(where, value, margin))


def contrast_of(terms: Iterable[tuple[float, Place]]) -> Contrast:
    """Return the weighted sum of means of (weight, place) terms, in the unit that is shown.

    It has the same sum of the paper's printed numbers. One cell has a sample for each of its metrics.
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
        point=terms[0][1][1].quantity.point,
        printed=printed,
        difference=abs(sum(weight for weight, _ in terms)) < 1e-3,  # weights are written with few digits
        printed_elsewhere=printed is not None and all(entry.suite_task.published is None for entry in entries),
        by_data_set=_by_data_set(terms),
    )


def _printed(terms: Sequence[tuple[float, Place]]) -> float | None:
    """Return the printed sum on single data sets of the paper, else its mean over those that print all terms."""
    numbers = [outcome.printed for _, (_, outcome) in terms]
    own = [one.get(entry.suite_task.published or "") for (_, (entry, _)), one in zip(terms, numbers)]
    averaged = any(outcome.members for _, (_, outcome) in terms)
    if not averaged and any(entry.suite_task.published for _, (entry, _) in terms):
        return None if None in own else sum(weight * (one or 0.0) for (weight, _), one in zip(terms, own))
    shared = [name for name in numbers[0] if all(name in one for one in numbers)]
    if not shared:
        return None
    sums = [sum(weight * one[name] for (weight, _), one in zip(terms, numbers)) for name in shared]
    return sum(sums) / len(sums)


def _by_data_set(terms: Sequence[tuple[float, Place]]) -> dict[str, float]:
    """Return the estimate on each data set, of a mean or of a difference that is taken on several; else nothing.

    A difference has weights that add up to 0 on each data set. Where it is the same one on each, the comparison's
    estimate is the mean of these, else their sum.
    """
    weights: dict[str, list[tuple[str, str | None, float]]] = {}
    sums: dict[str, float] = {}
    for weight, (entry, outcome) in terms:
        for one, member in outcome.members or ((entry, outcome),):
            label, values = one.suite_task.label, member.values[member.values.index.isin(outcome.values.index)]
            weights.setdefault(label, []).append((one.method_id, one.value, round(weight, 3)))
            sums[label] = sums.get(label, 0.0) + weight * member.quantity.scale * float(values.mean())
    if any(outcome.members for _, (_, outcome) in terms):
        return sums
    if len(sums) < 2 or any(abs(sum(weight for *_, weight in own)) > 0.01 for own in weights.values()):
        return {}
    same = len({tuple(sorted(own, key=str)) for own in weights.values()}) == 1
    return {label: value * (len(sums) if same else 1) for label, value in sums.items()}


AT = {"largest-epsilon": "", "every-epsilon": " at every ε"}


def where_tested(test: Any, against: bool = False) -> str:
    """Return at which ε and on which data sets a test must hold; `against`: on which one it must not."""
    at = getattr(test, "at", "largest-epsilon")
    target = AT[at] if isinstance(at, str) else f" at ε = {', '.join(f'{value:g}' for value in at)}"
    of = "" if test.tasks is None else f" {', '.join(test.tasks)}"
    if test.across == "mean":
        where = f"on the mean of{of}" if of else "on the mean of all data sets"
    elif of:
        where = f"on{' one of' if against and len(test.tasks or ()) > 1 else ''}{of}"
    else:
        where = "on one data set" if against else "on every data set"
    return f"{target}, {where}"


def each(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"each of {', '.join(names)}"


def any_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def in_points(value: float) -> str:
    """
    >>> in_points(1), in_points(-2.5)
    ('1 point', '−2.5 points')
    """
    return f"{value:g} point{'' if value == 1 else 's'}".replace("-", "−")
