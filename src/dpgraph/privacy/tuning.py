"""Hyper-parameter tuning that is paid for (Liu & Talwar 2019; Papernot & Steinke 2022)."""

from __future__ import annotations

import math

import dp_accounting

from dpgraph.errors import invalid
from dpgraph.privacy.renyi import quiet

SHAPES = {"geometric": 1.0, "poisson": math.inf}  # of the truncated negative binomial law of the number of runs


def repeat_and_select_epsilon(
    rate: float, noise_multiplier: float, steps: int, runs: str, mean_runs: float, delta: float
) -> float:
    """Epsilon of training a random number of times (law `runs`, mean `mean_runs`) and releasing the best run only.

    Each run is `steps` of the Poisson-subsampled Gaussian, add or remove, its score included. Rigorous: Papernot &
    Steinke (2022), Theorems 2 and 6, over RDP.
    """
    if runs not in SHAPES:
        raise invalid("runs", runs, f"one of {', '.join(SHAPES)}")
    event: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(noise_multiplier)
    if rate < 1:
        event = dp_accounting.PoissonSampledDpEvent(rate, event)
    run = dp_accounting.SelfComposedDpEvent(event, steps)
    accountant = dp_accounting.rdp.RdpAccountant()
    with quiet():
        accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(run, mean_runs, SHAPES[runs]))
        return float(accountant.get_epsilon(delta))
