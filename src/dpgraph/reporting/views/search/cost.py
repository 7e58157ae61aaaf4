"""The privacy cost of a hyper-parameter search: the epsilon of releasing its best run, or why none holds."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from dpgraph.config.cell import Cell
from dpgraph.config.expansion import merged, nested
from dpgraph.config.experiment import Search
from dpgraph.config.streams import split_number
from dpgraph.core.errors import UserError
from dpgraph.families.registry import spec
from dpgraph.planning.plan import Entry
from dpgraph.planning.resolve import resolve
from dpgraph.privacy.accountants import tuning
from dpgraph.privacy.mechanisms.base import NoisySteps, mechanism_from
from dpgraph.privacy.relation import Relation

NOT_ACCOUNTED = "tuning not accounted"
PAID = ("geometric", "poisson")
NO_EPSILON = "a single run has no proved epsilon"


class TuningCost(NamedTuple):
    """The epsilon of a selected run: inf without privacy, nan where `reason` states why none holds."""

    epsilon: float
    reason: str


def tuning_cost(search: Search, trials: Sequence[Entry], mechanism: Mapping[str, Any] | None) -> TuningCost:
    """Return the epsilon, at the mechanism's delta, of releasing the selected run of `trials`.

    The bound is that of Papernot & Steinke (2022) under the premises that `objections` checks. It covers the selected
    run alone, neither the other trials nor their number. Each seed of a trial is a whole run. The theorem is about
    pairs (run, score): other inputs of the score must be equal in neighbouring data sets (docs/privacy/choices.md,
    Theorem 31), so validation nodes are public.

    Args:
        search: The search, with the distribution of the number of trials.
        trials: Entries of one method, task and target.
        mechanism: The calibrated mechanism of the selected run in JSON form; None without a record.
    """
    cell = trials[0].cell
    if cell.privacy is None:
        return TuningCost(math.inf, "")
    objected = objections(search, trials)
    if not objected and mechanism is None:
        objected = ["the selected run has no record"]
    if objected or mechanism is None:
        return TuningCost(math.nan, f"{NOT_ACCOUNTED}: {'; '.join(objected)}")
    try:
        run = mechanism_from(spec(cell.method).mechanism_class(cell), dict(mechanism))
        if not isinstance(run, NoisySteps) or run.steps is None:
            raise UserError("the recorded mechanism has no noise or no steps")
        if (single := run.rigorous()).epsilon is None:
            raise UserError(f"{NO_EPSILON}: {single.reason}")
        epsilon = tuning.paid_epsilon(
            run, search.distribution, mean_runs=search.trials or 1, delta=run.delta, repeats=len(cell.seeds)
        )
        return TuningCost(epsilon, "")
    except UserError as error:
        return TuningCost(math.nan, f"{NOT_ACCOUNTED}: {error}")


def objections(search: Search, trials: Sequence[Entry]) -> list[str]:
    """Return a text for each premise of the theorem that does not hold.

    Every run must have the same guarantee whatever its settings, a theorem must cover the distribution of the number
    of runs, runs must be independent, and the score must read released and public data alone. The specification's
    `Variant.score` checks the last premise for every setting that a trial may draw.
    """
    cell = trials[0].cell
    tried = {path: [_changed(cell, path, value) for value in values] for path, values in search.space.items()}
    reached = [trial.cell for trial in trials] + [one for some in tried.values() for one in some if one is not None]
    mechanism = spec(cell.method).variant(cell).mechanism
    objected = []
    if not mechanism.proves or mechanism.relation is Relation.NONE:
        objected.append(NO_EPSILON)
    if search.strategy != "random" or search.distribution not in PAID:
        objected.append(f"the number of trials is fixed, not {' or '.join(PAID)}")
    part = search.metric.partition("/")[2]
    if part not in ("validation", "val"):
        objected.append(f"trials are scored on {part} nodes, not on validation nodes")
    seeds = list(chain.from_iterable(trial.cell.seeds for trial in trials))
    splits = len({split_number(trial.cell, seed) for trial in trials for seed in trial.cell.seeds})
    for one in reached:
        found = spec(one.method).variant(one).score(one).objections(one.task.setting, splits)
        objected += [reason for reason in found if reason not in objected]
    for path, cells in tried.items():
        if any(one is None or one.calibration_key != cell.calibration_key for one in cells):
            objected.append(f"{path} changes the mechanism from trial to trial")
    if len(set(seeds)) < len(seeds):
        objected.append("trials share seeds, hence noise and batches: they are not independent runs")
    return objected


def _changed(cell: Cell, path: str, value: Any) -> Cell | None:
    """Return the cell with one setting changed; None: it is valid only together with others."""
    try:
        return resolve(merged(cell.model_dump(), nested(path, value)))
    except UserError:
        return None
