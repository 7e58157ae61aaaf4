"""What a hyper-parameter search costs in privacy: the epsilon of releasing its best run only, or why none holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Cell
from dpgraph.experiments.expansion import merged
from dpgraph.experiments.experiment import Search
from dpgraph.methods.registry import spec
from dpgraph.planning.plan import Entry
from dpgraph.planning.resolve import inference_of, resolve
from dpgraph.privacy.accountants import tuning
from dpgraph.privacy.mechanisms.base import NoisySteps, mechanism_from
from dpgraph.privacy.relation import PredictionInput

NOT_ACCOUNTED = "tuning not accounted"
PAID = ("geometric", "poisson")


class TuningCost(NamedTuple):
    """`epsilon` is nan where `reason` states why nothing holds, inf without privacy."""

    epsilon: float
    reason: str


def tuning_cost(search: Search, trials: Sequence[Entry], mechanism: Mapping[str, Any] | None) -> TuningCost:
    """Epsilon, at the mechanism's delta, of the selected run of `trials` (one method, task and target).

    `mechanism` is the recorded one, calibrated, in JSON form; None: no record. Rigorous (Papernot & Steinke, 2022)
    under the premises that `objections` checks, for a release of the selected run alone: not of the other trials, nor
    of how many there were. Each seed of a trial is a whole run.
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
        epsilon = tuning.paid_epsilon(
            run, search.distribution, mean_runs=search.trials or 1, delta=run.delta, repeats=len(cell.seeds)
        )
        return TuningCost(epsilon, "")
    except UserError as error:
        return TuningCost(math.nan, f"{NOT_ACCOUNTED}: {error}")


def objections(search: Search, trials: Sequence[Entry]) -> list[str]:
    """The premises of the theorem that do not hold, each in words; empty: all hold.

    Every run must have the same guarantee whatever its settings, the number of runs must have a law with a theorem,
    runs must be independent, and the score must read no protected record: validation nodes are taken as public, and
    their predictions must use no edge to a training node.
    """
    cell = trials[0].cell
    objected = []
    if cell.privacy is not None and cell.privacy.variant == "published":
        objected.append("the paper's mechanism has no rigorous epsilon for a single run")
    if search.strategy != "random" or search.distribution not in PAID:
        objected.append(f"the number of trials is fixed, not {' or '.join(PAID)}")
    part = search.metric.partition("/")[2]
    if part not in ("validation", "val"):
        objected.append(f"trials are scored on {part} nodes, not on validation nodes")
    if inference_of(cell) is PredictionInput.RAW_GRAPH and cell.task.setting == "transductive":
        objected.append("validation scores read training records along edges (setting transductive)")
    for path in search.space:
        if _moves_the_mechanism(cell, path, search.space[path]):
            objected.append(f"{path} changes the mechanism from trial to trial")
    seeds = list(chain.from_iterable(trial.cell.seeds for trial in trials))
    if len(set(seeds)) < len(seeds):
        objected.append("trials share seeds, hence noise and batches: they are not independent runs")
    return objected


def _moves_the_mechanism(cell: Cell, path: str, values: Sequence[Any]) -> bool:
    """Whether noise, steps or delta could depend on this setting: `for_calibration` keeps what they depend on."""
    for value in values:
        settings = value
        for key in reversed(path.split(".")):
            settings = {key: settings}
        try:
            changed = resolve(merged(cell.model_dump(), settings))
        except UserError:  # valid only together with other settings
            return True
        if changed.calibration_key != cell.calibration_key:
            return True
    return False
