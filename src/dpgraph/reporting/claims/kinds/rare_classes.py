"""Claims that rarer classes lose more: rarer-classes. The sample is the classes, not the seeds.

Seeds repeat the same classes: were they the sample, a correlation that a few classes happen to have would be found
significant as soon as the seeds agree on it. So the accuracies of a class are averaged over seeds, and the rank
correlation of the classes' frequencies with them is compared with those of all orders of the classes (a permutation
test, exact where classes are exchangeable). With C classes no p-value is below 1 / C!: three are too few.
The data sets of a claim are one test: the mean of their correlations, each weighted by C - 1, the inverse of its
variance under the null, against orders of the classes within each data set.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import factorial, sqrt
from typing import Any

import numpy as np
from scipy.stats import norm, rankdata

from dpgraph.config.claim_tests import RarerClasses
from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.claims.comparing import ClaimKind, DataSet, PaperResults, at_target, each
from dpgraph.reporting.claims.contrasts import DRAWS, LEVEL, Strength
from dpgraph.reporting.claims.verdicts import Comparison, Comparisons
from dpgraph.reporting.results import class_counts
from dpgraph.reporting.views.class_wise.rows import ClassValues, class_losses, class_values

MOST_ORDERS = 10_000  # of the classes that are tried; of up to 7 classes all
CORRELATION = 0.5  # under the alternative: the papers print none


def compare_classes(
    test: RarerClasses, suite: PaperResults, data_sets: Sequence[DataSet], comparisons: Comparisons
) -> None:  # fmt: skip
    """Add the comparison of each method: the mean rank correlation over the data sets."""
    artefact = suite.full_name(test.artefact)
    every = class_values(suite.plan, artefact, suite.results, class_counts(suite.plan, artefact, suite.results.frame))
    by_task = [(one.label, [values for values in every if values.entry.task_id in one.task_ids]) for one in data_sets]
    for method in test.methods:
        found = [_sample(test, method, label, by_entry, comparisons) for label, by_entry in by_task]
        samples = [sample for sample in found if sample is not None]
        if not samples:
            continue
        above, below, value = rank_test([sample.frequency for sample in samples], [sample.values for sample in samples])
        sizes = tuple(len(sample.values) for sample in samples)
        where = "; ".join(sample.where for sample in samples)
        mean = "rank correlation" if len(samples) == 1 else "mean rank correlation"
        name = f"{where}: minus the {mean} of frequency with accuracy lost to {test.reference}"
        seeds = min(sample.seeds for sample in samples)
        given = strength_of_ranks(sizes)
        effect = f"correlation {CORRELATION:g} (the paper prints none)"
        comparisons.made.append(
            Comparison(name, value, float("nan"), 0.0, seeds, above, below, "", given=given, effect=effect)
        )


@dataclass(frozen=True)
class Sample:
    """The classes of one data set: training frequencies, and the values that should be higher for frequent classes."""

    where: str
    frequency: np.ndarray
    values: np.ndarray
    seeds: int


def _sample(
    test: RarerClasses, method: str, label: str, by_entry: list[ClassValues], comparisons: Comparisons
) -> Sample | None:
    """Return the classes of one task; None, with the reason among the comparisons, where something is missing."""
    references = [values for values in by_entry if values.entry.method_id == test.reference]
    own = [values for values in by_entry if values.entry.method_id == method]
    if not own or not references:
        comparisons.missing.append(f"{label}: {method} or {test.reference} is not in this suite")
        return None
    private, reference = max(own, key=lambda values: values.entry.target_epsilon or 0.0), references[0]
    entry = private.entry
    where = f"{label}, {entry.method_id}{at_target(entry.target_epsilon)}"
    if comparisons.lack(where, ((one.entry.method_id, one.outcome) for one in (private, reference))):
        return None
    changes = class_losses(private, reference)  # (seeds, C)
    number = changes.shape[1]
    mean = changes.mean(axis=0) if len(changes) else np.zeros(0)
    if number < 3 or np.isnan(mean).any() or np.ptp(mean) == 0:
        comparisons.missing.append(f"{where}: no rank correlation over {number} classes")
        return None
    if entry.cell.privacy:
        comparisons.use((entry, private.outcome))
    frequency = np.asarray(private.frequency, dtype=float)
    return Sample(f"{where}, {number} classes", frequency, -mean, len(changes))


def rank_test(frequencies: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Return p-values against "no positive" and "no negative" rank correlation, and the mean correlation (Spearman).

    Each data set has its own classes, and weighs as many as these less one.
    """
    sizes = tuple(len(one) for one in values)
    ranks = [_centred(one) for one in values]
    centred = [_centred(one) for one in frequencies]
    observed = _weighted(sizes, [float(one @ rank) for one, rank in zip(centred, ranks, strict=True)])
    others = _over_orders(sizes, centred, ranks)
    slack = 1e-9
    return float((others >= observed - slack).mean()), float((others <= observed + slack).mean()), observed


def _weighted(sizes: tuple[int, ...], correlations: Iterable[Any]) -> Any:
    """Return the mean over data sets, each of which weighs as many as its classes less one."""
    whole = sum(size - 1 for size in sizes)
    return sum((size - 1) / whole * one for size, one in zip(sizes, correlations, strict=True))


def _over_orders(sizes: tuple[int, ...], frequencies: Sequence[np.ndarray], ranks: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean correlations (orders,) for other orders of the classes, centred ranks given."""
    every = zip(frequencies, ranks, _together(sizes), strict=True)
    return np.asarray(_weighted(sizes, (frequency[orders] @ rank for frequency, rank, orders in every)))


def _centred(values: np.ndarray) -> np.ndarray:
    """Return ranks with mean 0 and norm 1."""
    ranks = rankdata(values) - (len(values) + 1) / 2
    return ranks / np.linalg.norm(ranks)


@cache
def _orders(number: int) -> np.ndarray:
    """Return (orders, C) orders of C classes, their own among them: all, or `MOST_ORDERS` random ones."""
    if factorial(number) <= MOST_ORDERS:
        return np.array(list(permutations(range(number))))
    random = numpy_generator("dpgraph", "orders of classes", number)
    drawn = random.permuted(np.tile(np.arange(number), (MOST_ORDERS, 1)), axis=1)
    drawn[0] = np.arange(number)
    return drawn


@cache
def _together(sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Return for each data set (orders, C) orders, equally many; the first row has the classes as they are."""
    if len(sizes) == 1:
        return [_orders(sizes[0])]
    random = numpy_generator("dpgraph", "orders of classes together", *sizes)
    chosen = [_orders(size)[random.integers(len(_orders(size)), size=MOST_ORDERS)] for size in sizes]
    for size, orders in zip(sizes, chosen, strict=True):
        orders[0] = np.arange(size)
    return chosen


@cache
def strength_of_ranks(sizes: tuple[int, ...]) -> Strength:
    """Return size and power of `rank_test`: correlation 0 and `CORRELATION` with the normal scores of the ranks."""
    random = numpy_generator("dpgraph", "power over classes", *sizes)
    ranks = [_centred(np.arange(size)) for size in sizes]
    null = np.sort(_over_orders(sizes, ranks, ranks))
    noise = [random.standard_normal((DRAWS, size)) for size in sizes]
    rates = []
    for correlation in (0.0, CORRELATION):
        drawn = (_correlations(correlation, part, rank) for part, rank in zip(noise, ranks, strict=True))
        observed = _weighted(sizes, drawn)
        as_large = len(null) - np.searchsorted(null, observed - 1e-9)
        rates.append(float((as_large / len(null) < LEVEL).mean()))
    return Strength(*rates)


def _correlations(correlation: float, noise: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return (R,) rank correlations of draws (R, C) that have this correlation with the normal scores."""
    number = len(ranks)
    scores = norm.ppf((np.arange(number) + 0.5) / number)
    drawn = rankdata(correlation * scores + sqrt(1 - correlation**2) * noise, axis=1) - (number + 1) / 2
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)) @ ranks  # type: ignore[no-any-return]


KINDS = (
    ClaimKind(
        RarerClasses,
        compare_classes,
        lambda test: (
            f"the rarer the class, the more accuracy lost to {test.reference} of {each(test.methods)}, "
            "over the classes of all data sets"
        ),
        lambda _: "the rank correlation has the other sign, over the classes of all data sets",
        together=True,
    ),
)
