"""Variance components of a crossed design: between splits, between initialisations, and the rest.

The value of split i and initialisation j is m + A_i + B_j + E_ij with independent normal A, B and E (two-way random
effects, one run in each place). E holds the interaction and everything that each run draws anew. Estimates equate the
mean squares with their expectations (Searle, Casella and McCulloch, Variance Components, 1992, section 4.3), for a
splits and b initialisations

    E MS_A = s_E^2 + b s_A^2,    E MS_B = s_E^2 + a s_B^2,    E MS_E = s_E^2,

and are 0 where that gives less. Intervals are generalised confidence intervals (Weerahandi, Exact Statistical Methods
for Data Analysis, 1995): the sums of squares are divided by draws of their chi-squares, which gives an interval of any
function of the three parts, such as shares, too.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.config.streams import initialisation_number, split_number
from dpgraph.core.errors import invalid
from dpgraph.core.randomness import numpy_generator
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting.artefacts import EntryRun, described, prepend_columns
from dpgraph.reporting.results import CONFIDENCE, EntryResult, Results

DRAWS = 100_000  # of an interval's ends, whose own error is then below 1 %


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Parts:
    """The three variances: numbers, or arrays of draws."""

    split: np.ndarray
    initialisation: np.ndarray
    rest: np.ndarray

    @property
    def within(self) -> np.ndarray:
        """Return the variance of runs on one split."""
        return self.initialisation + self.rest

    @property
    def total(self) -> np.ndarray:
        """Return the variance of one run."""
        return self.split + self.within

    def share(self, part: np.ndarray) -> np.ndarray:
        """Return a part as percent of the total; nan where all runs agree."""
        with np.errstate(invalid="ignore"):
            return np.asarray(100 * part / self.total)


@dataclass(frozen=True)
class Components:
    """Variance components of a (splits, initialisations) table, in the unit of the values or its square."""

    mean: float
    splits: int
    initialisations: int
    sums: tuple[float, float, float]  # of squares: between splits, between initialisations, rest
    degrees: tuple[int, int, int]  # of freedom, of each sum
    raw: Parts  # unbiased, and below 0 where a mean square is below that of the rest
    parts: Parts  # at least 0
    draws: Parts

    def estimate(self, measure: Callable[[Parts], np.ndarray]) -> Estimate:
        """Return the estimate of a function of the parts; nan where it has no value."""
        ends = np.quantile(measure(self.draws), ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
        return Estimate(float(measure(self.parts)), float(ends[0]), float(ends[1]))

    @property
    def mean_error(self) -> float:
        """Return the standard error of the table's mean, for new splits and new initialisations."""
        return float(self._mean_errors(self.parts))

    @property
    def mean_interval(self) -> tuple[float, float]:
        """Return the generalised 95 % confidence interval of the mean, for new splits and new initialisations."""
        normal = numpy_generator("dpgraph", "generalised intervals of a mean").standard_normal(DRAWS)
        half = float(np.quantile(np.abs(normal) * self._mean_errors(self.draws), CONFIDENCE))
        return self.mean - half, self.mean + half

    def _mean_errors(self, one: Parts) -> np.ndarray:
        a, b = self.splits, self.initialisations
        return np.asarray(np.sqrt(one.split / a + one.initialisation / b + one.rest / (a * b)))


def pairs_error(parts: Parts, n: int) -> np.ndarray:
    """Return the standard error of the mean of n runs, each with its own split and initialisation."""
    return np.asarray(np.sqrt(parts.total / n))


def stated_error(parts: Parts, n: int) -> np.ndarray:
    """Return the standard error that n runs on one split state for their mean, on average over splits."""
    return np.asarray(np.sqrt(parts.within / n))


def one_split_error(parts: Parts, n: int) -> np.ndarray:
    """Return the standard error of the mean of n runs on one split, as an estimate for any split."""
    return np.asarray(np.sqrt(parts.split + parts.within / n))


def components(values: np.ndarray) -> Components:
    """Return the components of (a, b) values, a row per split and a column per initialisation.

    Raises:
        UserError: A value is missing, or a or b is less than two.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 2 or min(values.shape) < 2 or not np.isfinite(values).all():
        raise invalid("values", values.shape, "two or more whole rows and columns of numbers")
    a, b = values.shape
    mean, rows, columns = values.mean(), values.mean(axis=1), values.mean(axis=0)
    rest = values - rows[:, None] - columns[None, :] + mean
    sums = float(b * ((rows - mean) ** 2).sum()), float(a * ((columns - mean) ** 2).sum()), float((rest**2).sum())
    degrees = (a - 1, b - 1, (a - 1) * (b - 1))
    generator = numpy_generator("dpgraph", "generalised intervals of variance components")
    draws = [one / generator.chisquare(degree, DRAWS) for one, degree in zip(sums, degrees, strict=True)]
    raw = _solved([np.asarray(one / degree) for one, degree in zip(sums, degrees, strict=True)], a, b)
    return Components(float(mean), a, b, sums, degrees, raw, _positive(raw), _positive(_solved(draws, a, b)))


def _solved(mean_squares: Sequence[np.ndarray], a: int, b: int) -> Parts:
    """Return the parts whose expected mean squares (splits, initialisations, rest) are these."""
    split, initialisation, rest = mean_squares
    return Parts((split - rest) / b, (initialisation - rest) / a, rest)


def _positive(parts: Parts) -> Parts:
    return Parts(np.maximum(parts.split, 0), np.maximum(parts.initialisation, 0), parts.rest)


PARTS = ("split", "initialisation", "rest")
PAIRS = (3, 5, 10)  # runs of a mean, whose standard errors the table gives
TOO_FEW = "fewer than two splits of which every run ended well"


@dataclass(frozen=True)
class Crossed(EntryRun):
    """One entry: its (splits, initialisations) values in the unit that is shown."""

    values: pd.DataFrame
    components: Components | None  # None where `outcome` is not ok


def crossed(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Crossed]:
    """Return each entry of the artefact, in its order. A split with a missing run is left out as a whole."""
    return [crossed_run(entry, outcome) for entry, outcome in Results.of(results).outcomes(plan, artefact_id)]


def crossed_run(entry: Entry, outcome: EntryResult) -> Crossed:
    """Return an entry's values by split and initialisation. A split with a missing run is left out as a whole."""
    if not outcome.ok:
        return Crossed(entry, outcome, pd.DataFrame(), None)
    seeds = [int(seed) for seed in outcome.values.index]
    every = pd.DataFrame(
        {
            "split": [split_number(entry.cell, seed) for seed in seeds],
            "initialisation": [initialisation_number(entry.cell, seed) for seed in seeds],
            "value": outcome.shown,
        }
    ).pivot(index="split", columns="initialisation", values="value")
    whole = every.reindex(columns=range(entry.cell.seeds_per_split or 1)).dropna()
    if len(whole) < 2:
        return Crossed(entry, EntryResult.not_run(TOO_FEW), pd.DataFrame(), None)
    return Crossed(entry, outcome, whole, components(whole.to_numpy()))


def variance_table(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per entry.

    `sd_*`, `share_*` (percent) and the standard errors have intervals `*_low` and `*_high`. Standard deviations and
    errors are in points. `se_pairs_n` is the error of the mean of n runs that each have their own split and
    initialisation; `se_stated_n` is the error that n runs on one split state, `se_one_split_n` the error of their mean
    as an estimate for any split. `raw_*` are variances before negative ones are set to 0.
    """
    rows = []
    for one in crossed(plan, artefact_id, results):
        made = {} if one.components is None else dict(_columns(one.components))
        rows.append(described(one.entry, one.outcome) | {"cell": one.entry.cell.slug} | made)
    return pd.DataFrame(rows)


def _columns(made: Components) -> Iterator[tuple[str, Any]]:
    yield from {"mean": made.mean, "mean_error": made.mean_error}.items()
    yield from {"splits": made.splits, "initialisations": made.initialisations}.items()
    for index, part in enumerate(PARTS):
        yield f"mean_square_{part}", made.sums[index] / made.degrees[index]
        yield f"raw_{part}", float(getattr(made.raw, part))
    for part in PARTS:
        yield from _interval(f"sd_{part}", made.estimate(partial(_deviation, name=part)))
        yield from _interval(f"share_{part}", share_of(made, part))
    for n in PAIRS:
        for name, error in (("pairs", pairs_error), ("stated", stated_error), ("one_split", one_split_error)):
            yield from _interval(f"se_{name}_{n}", made.estimate(partial(error, n=n)))


def share_of(made: Components, part: str) -> Estimate:
    """Return a part of the variance of one run in percent; nan where all runs agree."""
    return made.estimate(lambda parts: parts.share(getattr(parts, part)))


def _deviation(parts: Parts, name: str) -> np.ndarray:
    return np.sqrt(getattr(parts, name))


def _interval(name: str, estimate: Estimate) -> Iterator[tuple[str, float]]:
    yield name, estimate.value
    yield f"{name}_low", estimate.low
    yield f"{name}_high", estimate.high


def variance_points(runs: list[Crossed]) -> pd.DataFrame:
    """Return the points of the figure: a row per run with `value`, its `deviation` from the mean, and shares."""
    parts = []
    for one in runs:
        head: dict[str, Any] = described(one.entry, one.outcome) | {"source": "ours"}
        long = pd.DataFrame([{"split": math.nan, "initialisation": math.nan, "value": math.nan}])
        if one.components is not None:
            long = one.values.reset_index().melt("split", value_name="value")
            head |= {name: value for name, value in _columns(one.components) if name.startswith("share_")}
            long["deviation"] = long["value"] - one.components.mean
        parts.append(prepend_columns(head, long))
    return pd.concat(parts, ignore_index=True)
