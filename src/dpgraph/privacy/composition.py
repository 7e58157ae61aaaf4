"""Epsilon of many adaptive steps, each with its dominating pair."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from dpgraph.privacy.double_mixture import Mixture, MixturePair


class Pair(Protocol):
    """A dominating pair of one step; hashable, since its distribution is kept for neighbouring settings."""

    def __hash__(self) -> int: ...

    def loss_std(self) -> float: ...

    def distribution(self, discretization: float, tail_mass: float) -> PrivacyLossDistribution: ...


TOLERANCE = 5e-4  # refine until halving the grid moves epsilon by less than this share; the error left is a third of it
MOST_HALVINGS = 8


@lru_cache(maxsize=64)
def _one_step(pair: Pair, grid: float, tail_mass: float) -> PrivacyLossDistribution:
    return pair.distribution(grid, tail_mass)


@lru_cache(maxsize=64)
def _loss_std(pair: Pair) -> float:
    return pair.loss_std()


def gaussian_pair(mu: float) -> MixturePair:
    """The Gaussian mechanism, mu = sensitivity / noise std."""
    return MixturePair(Mixture.of([1.0], [mu]), Mixture.of([1.0], [0.0]), 1.0)


def composed_delta(pair: Pair, steps: int, epsilons: np.ndarray, tail_mass: float = 1e-9) -> np.ndarray:
    """delta(epsilon) of `steps` adaptive steps, for a whole curve: never below the true one.

    Mass cut from tails counts as infinite loss. The grid is an eighth of the standard deviation of one step's loss.
    """
    grid = 2.0 ** np.floor(np.log2(max(_loss_std(pair), 1e-9) / 8))
    composed = _one_step(pair, grid, tail_mass / steps)
    if steps > 1:
        composed = composed.self_compose(steps, tail_mass_truncation=tail_mass)
    return np.array([composed.get_delta_for_epsilon(float(epsilon)) for epsilon in epsilons])


def composed_epsilon(
    pair: Pair, steps: int, delta: float, tolerance: float = TOLERANCE, once: Pair | None = None
) -> float:
    """Epsilon of `steps` adaptive steps of `pair`, and one of `once`, at `delta`.

    An upper bound, within about `tolerance` / 3 of the exact value: connect-the-dots errs by at most steps * grid^2 / 8
    in the mean loss, so a grid that is fine beside the standard deviation of one step's loss is enough, and the error
    falls by four with every halving.
    """
    # Powers of ten and of two, so that neighbouring settings share cached distributions of one step.
    tail_mass = 10.0 ** np.floor(np.log10(1e-4 * delta / steps))
    grid = 2.0 ** np.floor(np.log2(max(_loss_std(pair), 1e-9) / 4))
    epsilon = np.inf
    for _ in range(1 + MOST_HALVINGS):
        composed = _one_step(pair, grid, tail_mass)
        if steps > 1:
            composed = composed.self_compose(steps, tail_mass_truncation=1e-4 * delta)
        if once is not None:
            composed = composed.compose(_one_step(once, grid, tail_mass), tail_mass_truncation=1e-4 * delta)
        previous, epsilon = epsilon, float(composed.get_epsilon_for_delta(delta))
        if epsilon == 0 or previous - epsilon <= tolerance * max(epsilon, 1e-3):
            break
        grid /= 2
    return epsilon
