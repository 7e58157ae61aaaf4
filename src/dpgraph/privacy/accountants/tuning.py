"""Hyper-parameter tuning that is charged to the budget (Liu & Talwar 2019; Papernot & Steinke 2022).

The number of runs is random, and only the best run by its score is released: neither the other runs nor their number. A
run *with its score* must have the guarantee, so the score must not read protected records
(docs/privacy/choices.md#hyper-parameter-search).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import dp_accounting
import numpy as np

from dpgraph.core.errors import invalid
from dpgraph.privacy.accountants.renyi import Orders

SHAPES = {"geometric": 1.0, "poisson": math.inf}  # of the truncated negative binomial law of the number of runs
ORDERS: Orders = tuple((1 + np.geomspace(0.02, 2000, 90)).tolist())


@attrs.frozen(eq=False)
class _Curve(dp_accounting.DpEvent):
    """A run given by its Renyi divergences at the accountant's orders."""

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


class AccountedRun(Protocol):
    """A mechanism (privacy/mechanisms/)."""

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of a whole run. Raise UserError where no epsilon is proved."""


def paid_epsilon(
    mechanism: AccountedRun | Sequence[AccountedRun],
    distribution: str,
    *,
    mean_runs: float,
    delta: float,
    repeats: int = 1,
) -> float:
    """Return epsilon of running a mechanism a random number of times and releasing the best run only.

    Papernot & Steinke (2022), Theorems 2 and 6, over the Renyi divergences of the dominating pairs.

    Args:
        mechanism: One mechanism; of several, each run draws one by chance, without looking at data, and the largest
            divergence of all counts.
        distribution: Of the number of runs: geometric or poisson.
        mean_runs: The mean of that distribution.
        delta: In (0, 1).
        repeats: Whole mechanisms (seeds that share one score) in a run. Their divergences add up, those of one-off
            releases too, so that a run is not one mechanism with more steps.

    Raises:
        UserError: A mechanism has no rigorous guarantee.
    """
    mechanisms = mechanism if isinstance(mechanism, Sequence) else (mechanism,)
    if not mechanisms:
        raise invalid("mechanism", "none", "one mechanism or more")
    if repeats < 1:
        raise invalid("repeats", repeats, "an integer >= 1")
    curves = [repeats * one.rdp(ORDERS) for one in mechanisms]
    return best_of_runs(np.max(curves, axis=0), distribution, mean_runs=mean_runs, delta=delta)


def best_of_runs(rdp: np.ndarray, distribution: str, *, mean_runs: float, delta: float) -> float:
    """Return the epsilon of the best of a random number of runs of these divergences, at `ORDERS`."""
    if distribution not in SHAPES:
        raise invalid("distribution", distribution, f"one of {', '.join(SHAPES)}")
    if not 1 <= mean_runs < math.inf:
        raise invalid("mean_runs", mean_runs, "a finite number >= 1")
    if not 0 < delta < 1:
        raise invalid("delta", delta, "a number in (0, 1)")
    accountant = _CurveAccountant(ORDERS)
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(_Curve(rdp), mean_runs, SHAPES[distribution]))
    return float(accountant.get_epsilon(delta))
