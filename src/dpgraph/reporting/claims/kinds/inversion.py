"""Claims on distances of model inversion: every-class and at-equal-accuracy."""

from dataclasses import replace

import numpy as np
import pandas as pd

from dpgraph.config.claim_tests import AtEqualAccuracy, EveryClass
from dpgraph.config.experiment import ACCURACY
from dpgraph.planning.plan import Entry
from dpgraph.problems.images.exposure import BY_CLASS
from dpgraph.reporting.claims.comparing import ClaimKind, DataSet, Known, PaperResults, add, any_of, each
from dpgraph.reporting.claims.contrasts import contrast
from dpgraph.reporting.claims.verdicts import Comparisons, Place, compared
from dpgraph.reporting.paper_values import paper_class_values

LEVELS = 3  # of accuracy: both ends and the middle of the shared range


def compare_every_class(test: EveryClass, suite: PaperResults, data: DataSet, comparisons: Comparisons) -> None:
    """Add a comparison for each class for which both methods have a distance, or why there is none."""
    known, label = data.places(test.artefact), data.label
    places = {method: _only(known, method) for method in (test.higher, test.lower)}
    bad = [f"{method}: several runs, or none" for method, place in places.items() if place is None]
    pair = [place for place in places.values() if place is not None]
    bad += [f"{entry.method_id}: {outcome.why_not}" for entry, outcome in pair if not outcome.ok]
    if bad:
        comparisons.missing.append(f"{label}: {', '.join(bad)}")
        return
    values = [suite.results.by_class(entry, BY_CLASS + outcome.metric) for entry, outcome in pair]
    printed = [
        paper_class_values(suite.plan.experiments[suite.paper], entry, outcome.metric) for entry, outcome in pair
    ]
    shared = [number for number in values[0].columns if number in values[1].columns]
    if not shared:
        comparisons.missing.append(f"{label}: no distance by class")
        return
    for number in shared:
        above, below = (
            (entry, replace(outcome, values=of_class[number].dropna(), printed=_of_data_set(entry, texts.get(number))))
            for (entry, outcome), of_class, texts in zip(pair, values, printed, strict=True)
        )
        where = f"{label}, class {int(number)}, {test.higher} − {test.lower}"
        add(where, [(1.0, above), (-1.0, below)], 0.0, comparisons)


def _only(known: Known, method: str) -> Place | None:
    own = [place for place in known if place[0].method_id == method]
    return own[0] if len(own) == 1 else None


def _of_data_set(entry: Entry, text: str | None) -> dict[str, float]:
    name = entry.suite_task.published
    return {} if text is None or name is None else {name: float(text)}


def compare_at_equal_accuracy(
    test: AtEqualAccuracy, suite: PaperResults, data: DataSet, comparisons: Comparisons
) -> None:
    """Add, for each of `lower`, comparisons at `LEVELS` accuracies that all seeds of both methods reach."""
    label = data.label
    curves = {method: _curve(method, suite, test, data, comparisons) for method in (test.higher, *test.lower)}
    above = curves[test.higher]
    for method in test.lower:
        below = curves[method]
        if above is None or below is None:
            continue
        low = max(one.accuracy.min(axis=1).max() for one in (above, below))
        high = min(one.accuracy.max(axis=1).min() for one in (above, below))
        if not low < high:
            reached = ", ".join(f"{name} {curve.span}" for name, curve in ((test.higher, above), (method, below)))
            comparisons.missing.append(f"{label}: no accuracy that both reach in every seed ({reached})")
            continue
        comparisons.use(*above.places, *below.places)
        for level in np.linspace(low, high, LEVELS):
            value = contrast([(1.0, "higher", above.value_at(level)), (-1.0, "lower", below.value_at(level))])
            where = f"{label}, {test.higher} − {method} at {level:.1f} % accuracy"
            of = above.places[0][1].quantity
            comparisons.made.append(compared(where, replace(value, unit=of.difference, point=of.point), 0.0))


class SeedCurves:
    """Accuracy and metric of one method, as shown, with a row for each seed and a column for each run."""

    def __init__(self, places: list[Place], accuracy: pd.DataFrame, values: pd.DataFrame) -> None:
        self.places, self.accuracy, self.values = places, accuracy, values

    @property
    def span(self) -> str:
        return f"{self.accuracy.to_numpy().min():.1f} to {self.accuracy.to_numpy().max():.1f} %"

    def value_at(self, level: float) -> pd.Series:
        """Return the metric by seed at this accuracy, on straight lines between runs in the order of accuracy."""
        found = {}
        for seed, accuracy in self.accuracy.iterrows():
            order = np.argsort(accuracy.to_numpy(), kind="stable")
            found[seed] = np.interp(level, accuracy.to_numpy()[order], self.values.loc[seed].to_numpy()[order])
        return pd.Series(found)


def _curve(
    method: str, suite: PaperResults, test: AtEqualAccuracy, data: DataSet, comparisons: Comparisons
) -> SeedCurves | None:  # fmt: skip
    places = [place for place in data.places(test.artefact) if place[0].method_id == method]
    bad = [outcome.why_not for _, outcome in places if not outcome.ok]
    if bad or not places:
        comparisons.missing.append(f"{data.label}, {method}: {bad[0] if bad else 'not in this suite'}")
        return None
    reached = [suite.results.outcome(entry, ACCURACY).shown_by_seed for entry, _ in places]
    accuracy = pd.DataFrame(dict(enumerate(reached)))
    values = pd.DataFrame({at: outcome.shown_by_seed for at, (_, outcome) in enumerate(places)})
    whole = accuracy.notna().all(axis=1) & values.notna().all(axis=1)
    if not whole.any():
        comparisons.missing.append(f"{data.label}, {method}: no seed has all runs")
        return None
    return SeedCurves(places, accuracy[whole], values[whole])


KINDS = (
    ClaimKind(
        EveryClass,
        compare_every_class,
        lambda test: f"in {test.artefact} {test.higher} is above {test.lower} in each class",
        lambda test: f"in {test.artefact} {test.higher} is below {test.lower} in one class",
    ),
    ClaimKind(
        AtEqualAccuracy,
        compare_at_equal_accuracy,
        lambda test: (
            f"in {test.artefact} {test.higher} is above {each(test.lower)} at equal accuracy: the least, the "
            "middle and the largest that both reach"
        ),
        lambda test: f"in {test.artefact} {test.higher} is below {any_of(test.lower)} at one of these accuracies",
    ),
)
