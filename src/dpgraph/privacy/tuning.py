"""Hyper-parameter tuning that is paid for (Liu & Talwar 2019; Papernot & Steinke 2022).

A random number of runs, the best by its score is released and nothing else: neither the other runs nor their number. It
holds if a run *with its score* has the guarantee, so the score must not read protected records (docs/privacy.md, 7.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import dp_accounting
import numpy as np

from dpgraph.errors import UserError, invalid
from dpgraph.privacy.composition import pair_rdp
from dpgraph.privacy.double_mixture import affected_roots_pair
from dpgraph.privacy.mechanisms import FixedBatchTrees, FixedSizeStableTrees, Mechanism, NonPrivate, ResidualTrees
from dpgraph.privacy.pagerank_mechanisms import PagerankSteps
from dpgraph.privacy.quantile import PureDp
from dpgraph.privacy.record_mechanisms import Lots
from dpgraph.privacy.renyi import Orders, theorem1_rdp
from dpgraph.privacy.subgraph_mechanisms import GraphSplits

SHAPES = {"geometric": 1.0, "poisson": math.inf}  # of the truncated negative binomial law of the number of runs
ORDERS: Orders = tuple((1 + np.geomspace(0.02, 2000, 90)).tolist())


@attrs.frozen(eq=False)
class _Curve(dp_accounting.DpEvent):
    """A run known by its Renyi divergences at the accountant's orders."""

    rdp: np.ndarray


class _CurveAccountant(dp_accounting.rdp.RdpAccountant):
    """The library's accountant, which also composes curves."""

    _rdp: np.ndarray

    def _maybe_compose(self, event: dp_accounting.DpEvent, count: int, do_compose: bool) -> Any:
        if not isinstance(event, _Curve):
            return super()._maybe_compose(event, count, do_compose)
        if do_compose:
            self._rdp = self._rdp + count * event.rdp
        return None


def paid_epsilon(
    mechanism: Mechanism | Sequence[Mechanism], distribution: str, mean_runs: float, delta: float, repeats: int = 1
) -> float:
    """Epsilon of running `mechanism` a random number of times and releasing the best run only.

    A run is `repeats` whole mechanisms (seeds that share one score): their divergences add up, those of one-off
    releases too, so that it is not one mechanism with more steps.
    `distribution` of the number of runs: geometric or poisson, of mean `mean_runs`. Several mechanisms: each run draws
    one of them, by chance and without looking at data; the largest divergence of all counts. Rigorous: Papernot &
    Steinke (2022), Theorems 2 and 6, over the Renyi divergences of the dominating pairs. Raises UserError for
    mechanisms without a rigorous guarantee.
    """
    mechanisms = mechanism if isinstance(mechanism, Sequence) else (mechanism,)
    if not mechanisms:
        raise invalid("mechanism", "none", "one mechanism or more")
    if repeats < 1:
        raise invalid("repeats", repeats, "an integer >= 1")
    curves = [repeats * _rdp(one, ORDERS) for one in mechanisms]
    return _best_of_runs(np.max(curves, axis=0), distribution, mean_runs, delta)


def repeat_and_select_epsilon(
    rate: float, noise_multiplier: float, steps: int, runs: str, mean_runs: float, delta: float
) -> float:
    """The same for `steps` of the Poisson-subsampled Gaussian, add or remove one record."""
    rdp = steps * pair_rdp(affected_roots_pair(1, rate, noise_multiplier), ORDERS)
    return _best_of_runs(rdp, runs, mean_runs, delta)


def _best_of_runs(rdp: np.ndarray, distribution: str, mean_runs: float, delta: float) -> float:
    if distribution not in SHAPES:
        raise invalid("distribution", distribution, f"one of {', '.join(SHAPES)}")
    if not 1 <= mean_runs < math.inf:
        raise invalid("mean_runs", mean_runs, "a finite number >= 1")
    if not 0 < delta < 1:
        raise invalid("delta", delta, "a number in (0, 1)")
    accountant = _CurveAccountant(ORDERS)
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(_Curve(rdp), mean_runs, SHAPES[distribution]))
    return float(accountant.get_epsilon(delta))


def _rdp(mechanism: Mechanism, orders: Orders) -> np.ndarray:
    """Renyi divergences of a whole run, the larger of both directions."""
    if isinstance(mechanism, NonPrivate):
        raise invalid("mechanism", mechanism.kind, "one with noise")
    if isinstance(mechanism, FixedBatchTrees):
        raise UserError(f"mechanism={mechanism.kind}: nothing is guaranteed: {mechanism.rigorous().reason}")
    if isinstance(mechanism, GraphSplits | Lots | PagerankSteps):
        return mechanism.rdp(orders)
    steps, _ = mechanism.closed()
    if isinstance(mechanism, FixedSizeStableTrees):
        return steps * theorem1_rdp(
            mechanism.num_roots, mechanism.batch_size, mechanism.affected_roots, mechanism.proved_multiplier, orders
        )
    rdp = steps * pair_rdp(mechanism.dominating_pair, orders)
    if isinstance(mechanism, ResidualTrees) and mechanism.choice_epsilon:
        rdp = rdp + PureDp(mechanism.choice_epsilon).rdp(orders)
    return rdp
