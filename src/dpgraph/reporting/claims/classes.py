"""Claims about classes: whether rarer ones lose more. The sample is the classes, not the seeds.

Seeds repeat the same classes: were they the sample, a correlation that a few classes happen to have would be found
significant as soon as the seeds agree on it. So the accuracies of a class are averaged over seeds, and the rank
correlation of the classes' frequencies with them is compared with those of all orders of the classes (a permutation
test, exact where classes are exchangeable). With C classes no p-value is below 1 / C!: three can show nothing.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations
from math import factorial, sqrt

import numpy as np
from scipy.stats import norm, rankdata

from dpgraph.experiments.claim import RarerClasses
from dpgraph.randomness import numpy_generator
from dpgraph.reporting.claims.contrasts import LEVEL
from dpgraph.reporting.claims.power import DRAWS, Strength
from dpgraph.reporting.claims.verdicts import Comparison, Comparisons
from dpgraph.reporting.views.class_wise.fairness import class_changes
from dpgraph.reporting.views.class_wise.rows import ClassValues

MOST_ORDERS = 10_000  # of the classes that are tried; of up to 7 classes all
CORRELATION = 0.5  # under the alternative: the papers print none


def compare_classes(test: RarerClasses, label: str, by_entry: list[ClassValues], comparisons: Comparisons) -> None:
    """Adds the comparisons of `rarer-classes` on one task: the rank correlation over its classes."""
    references = [values for values in by_entry if values.entry.method_id == test.reference]
    for method in test.methods:
        own = [values for values in by_entry if values.entry.method_id == method]
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
    changes = class_changes(private, reference, test.of)  # (seeds, C)
    number = changes.shape[1]
    mean = changes.mean(axis=0) if len(changes) else np.zeros(0)
    if number < 3 or np.isnan(mean).any() or np.ptp(mean) == 0:
        comparisons.missing.append(f"{where}: no rank correlation over {number} classes")
        return
    sign, what = (1.0, "accuracy") if test.of == "accuracy" else (-1.0, f"accuracy lost to {test.reference}")
    order = "" if sign > 0 else "minus the "
    name = f"{where}, {order}rank correlation of frequency with {what}, {number} classes"
    if entry.cell.privacy:
        comparisons.use((entry, private.outcome))
    above, below, value = rank_test(np.asarray(private.frequency, dtype=float), sign * mean)
    comparisons.made.append(
        Comparison(name, value, float("nan"), 0.0, len(changes), above, below, "", given=strength_of_ranks(number))
    )


def rank_test(frequency: np.ndarray, values: np.ndarray) -> tuple[float, float, float]:
    """p-values against "no positive" and "no negative" rank correlation, and Spearman's correlation."""
    ranks = _centred(frequency)
    observed = float(ranks @ _centred(values))
    others = ranks[_orders(len(ranks))] @ _centred(values)
    slack = 1e-9
    return float((others >= observed - slack).mean()), float((others <= observed + slack).mean()), observed


def _centred(values: np.ndarray) -> np.ndarray:
    """Ranks with mean 0 and norm 1."""
    ranks = rankdata(values) - (len(values) + 1) / 2
    return ranks / np.linalg.norm(ranks)


@cache
def _orders(number: int) -> np.ndarray:
    """(orders, C) of C classes, the one that is among them: all, or as many random ones."""
    if factorial(number) <= MOST_ORDERS:
        return np.array(list(permutations(range(number))))
    random = numpy_generator("dpgraph", "orders of classes", number)
    drawn = random.permuted(np.tile(np.arange(number), (MOST_ORDERS, 1)), axis=1)
    drawn[0] = np.arange(number)
    return drawn


@cache
def strength_of_ranks(number: int) -> Strength:
    """Of `rank_test` at 5 %, for values with correlation 0 and `CORRELATION` with the normal scores of the ranks."""
    random = numpy_generator("dpgraph", "power over classes", number)
    ranks = _centred(np.arange(number))
    null = np.sort(ranks[_orders(number)] @ ranks)
    scores = norm.ppf((np.arange(number) + 0.5) / number)
    noise = random.standard_normal((DRAWS, number))
    rates = []
    for correlation in (0.0, CORRELATION):
        drawn = rankdata(correlation * scores + sqrt(1 - correlation**2) * noise, axis=1) - (number + 1) / 2
        observed = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)) @ ranks
        as_large = len(null) - np.searchsorted(null, observed - 1e-9)
        rates.append(float((as_large / len(null) < LEVEL).mean()))
    return Strength(*rates)
