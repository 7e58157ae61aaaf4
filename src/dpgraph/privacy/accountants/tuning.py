"""Hyper-parameter tuning that is charged to the budget (Liu & Talwar 2019; Papernot & Steinke 2022).

A random number of runs, the best by its score is released and nothing else: neither the other runs nor their number. It
holds if a run *with its score* has the guarantee, so the score must not read protected records (docs/privacy.md, 7.2).
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


class Accounted(Protocol):
    """A mechanism (privacy/mechanisms/)."""

    def rdp(self, orders: Orders) -> np.ndarray:
        """Renyi divergences of a whole run; raises UserError where nothing is guaranteed."""


def paid_epsilon(
    mechanism: Accounted | Sequence[Accounted], distribution: str, *, mean_runs: float, delta: float, repeats: int = 1
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
