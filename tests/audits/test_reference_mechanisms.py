"""A3, A5, A8, A9: audits of mechanisms that have no training code in this project yet (fixed partitions, adaptive
clipping, PageRank rows, PATE votes), on small reference implementations written out here. Each with its planted bug.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpgraph.privacy.auditing import ProfileTest, measured_errors, profile_test
from dpgraph.privacy.composition import composed_delta, gaussian_pair
from dpgraph.privacy.double_mixture import affected_roots_pair
from dpgraph.privacy.gaussian import gaussian_delta
from dpgraph.randomness import numpy_generator

TRIALS = 20_000


def gaussian_audit(gap: float, std: float, claimed_mu: float, *names: str | float) -> ProfileTest:
    """One release of a vector that moves by `gap`, projected on the direction of the move."""
    generator = numpy_generator("test", "reference", *map(str, names))
    with_, without = (shift + std * generator.standard_normal(TRIALS) for shift in (gap, 0.0))
    return profile_test(measured_errors(with_, without), lambda eps: gaussian_delta(claimed_mu, eps))


# ---- A3: graph splits of Igamberdiev & Habernal --------------------------------------------------------------------

GROUPS, EPOCHS, NOISE = 8, 6, 8.0  # noise std / C


def split_scores(batches: Callable[[np.random.Generator], np.ndarray], side: int, known: bool) -> np.ndarray:
    """Scores of trials in which the node's group moves by 2 C e; `batches` says at which steps it is read.

    `known`: the schedule is public, and the attacker looks at those steps only. Else he mixes over the sampling.
    """
    generator = numpy_generator("test", "splits", side, str(known))
    active = np.stack([batches(generator) for _ in range(4000)])
    y = 2.0 * side * active + NOISE * generator.standard_normal(active.shape)
    if known:
        return (y * active).sum(axis=1)
    return affected_roots_pair(1, 1 / GROUPS, NOISE / 2).log_ratio((y / 2).ravel()).reshape(y.shape).sum(axis=1)


def cyclic(generator: np.random.Generator) -> np.ndarray:
    return (np.arange(GROUPS * EPOCHS) % GROUPS == 3).astype(float)


def fresh(generator: np.random.Generator) -> np.ndarray:
    return (generator.random(GROUPS * EPOCHS) < 1 / GROUPS).astype(float)


def split_test(batches: Callable[[np.random.Generator], np.ndarray], known: bool) -> ProfileTest:
    claim = affected_roots_pair(1, 1 / GROUPS, NOISE / 2)
    errors = measured_errors(*(split_scores(batches, side, known) for side in (1, 0)))
    return profile_test(errors, lambda eps: composed_delta(claim, GROUPS * EPOCHS, eps), np.linspace(0, 3, 13))


def test_fresh_poisson_subgraphs_keep_their_claim() -> None:
    assert not split_test(fresh, known=False).refuted


def test_a_cyclic_partition_accounted_as_poisson_is_caught() -> None:
    """Only an attacker who looks at the known active steps sees it; the mixture's score over all steps does not."""
    assert split_test(cyclic, known=True).refuted
    assert not split_test(cyclic, known=False).refuted


def test_a_cyclic_partition_with_its_own_accountant() -> None:
    """mu = 2 sqrt(E) / sigma for E epochs: true, and nearly reached."""
    errors = measured_errors(*(split_scores(cyclic, side, True) for side in (1, 0)))
    mu = 2 * math.sqrt(EPOCHS) / NOISE
    assert not profile_test(errors, lambda eps: gaussian_delta(mu, eps)).refuted
    assert errors.mu > 0.75 * mu


# ---- A5: clipping of relations -------------------------------------------------------------------------------------


def clipped_total(tuples: np.ndarray, signs: np.ndarray, adaptive: bool) -> float:
    """Sum of one-dimensional gradients +-C, each clipped at C or at C / (most occurrences of one of its nodes)."""
    occurrences = np.bincount(tuples.ravel())
    thresholds = 1.0 / occurrences[tuples].max(axis=1) if adaptive else np.ones(len(tuples))
    return float(signs @ thresholds)


def worst_gap(adaptive: bool, trials: int = 300) -> float:
    """Largest change of the sum, relative to K C, when node 0 with K = 4 of 20 random tuples leaves the batch."""
    generator = numpy_generator("test", "relations")
    worst = 0.0
    for _ in range(trials):
        others = generator.integers(1, 12, (16, 2))
        own = np.column_stack([np.zeros(4, int), generator.choice(np.arange(1, 12), 4, replace=False)])
        signs = np.concatenate([np.ones(16), -np.ones(4)])
        whole = clipped_total(np.vstack([others, own]), signs, adaptive)
        worst = max(worst, abs(whole - clipped_total(others, signs[:16], adaptive)))
    return worst


def test_static_clipping_keeps_its_sensitivity_and_adaptive_clipping_does_not() -> None:
    """Static: at most K C. Adaptive clipping claims C (node 0 is no negative); random batches already exceed it."""
    assert worst_gap(adaptive=False) == 4.0
    assert worst_gap(adaptive=True) > 1.5


# ---- A8: rows of private PageRank ----------------------------------------------------------------------------------


def clipped_row(row: np.ndarray, norm: float) -> np.ndarray:
    return row / max(1.0, float(np.linalg.norm(row)) / norm)


@pytest.mark.parametrize(("claimed_gap", "refuted"), [(math.sqrt(2), False), (1.0, True)])
def test_two_rows_with_disjoint_support(claimed_gap: float, refuted: bool) -> None:
    """Non-negative rows clipped at C1 are sqrt(2) C1 apart; Theorem 6 of Zhang says C1."""
    clip, std = 0.3, 0.4
    gap = float(np.linalg.norm(clipped_row(np.array([2.0, 0, 0]), clip) - clipped_row(np.array([0, 1.0, 1.0]), clip)))
    assert gap_audit(gap, std, claimed_gap * clip).refuted == refuted


def gap_audit(gap: float, std: float, claimed: float) -> ProfileTest:
    return gaussian_audit(gap, std, claimed / std, gap, claimed)


def changed_gradients(support: int | None) -> int:
    """Of M = 20 roots, clipped gradients that node v changes with weight 1e-3 and huge features.

    `support`: entries kept per column of the released matrix; None: as in Theorem 8, which bounds the column's norm.
    """
    column = np.full(20, 1e-3)
    if support is not None:
        column[support:] = 0.0
    gradients = [np.clip(own, -1.0, 1.0) for own in (1.0 - column * 1e9, np.ones(20))]  # one feature, clip norm 1
    return int(np.count_nonzero(gradients[0] != gradients[1]))


def test_the_support_of_a_column_bounds_the_changed_gradients_and_its_norm_does_not() -> None:
    assert changed_gradients(3) == 3
    assert changed_gradients(None) == 20 > 1e3 * np.linalg.norm(np.full(20, 1e-3))


# ---- A9: votes of PATE ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("claimed_gap", "refuted"), [(math.sqrt(2), False), (1.0, True)])
def test_one_moved_vote(claimed_gap: float, refuted: bool) -> None:
    """One vote leaves a class and enters another: the histogram moves by sqrt(2), not 1."""
    votes = np.array([30.0, 12.0, 8.0])
    moved = votes + np.array([-1.0, 1.0, 0.0])
    gap = float(np.linalg.norm(votes - moved))
    assert gaussian_audit(gap, 1.5, claimed_gap / 1.5, "votes", claimed_gap).refuted == refuted


def test_the_threshold_check_moves_by_one() -> None:
    """The largest count moves by at most 1 when one vote moves."""
    generator = numpy_generator("test", "checks")
    for _ in range(200):
        votes = generator.multinomial(20, np.ones(4) / 4)
        source, target = generator.choice(4, 2, replace=False)
        moved = votes - (np.arange(4) == source) + (np.arange(4) == target)
        if votes[source]:
            assert abs(votes.max() - moved.max()) <= 1


def answers(queries: int, cap: int | None, generator: np.random.Generator) -> int:
    """Confident-GNMax on queries that every check passes: how many answers it gives."""
    given = 0
    for _ in range(queries):
        if cap is not None and given == cap:
            break
        if 50 + generator.standard_normal() > 30:
            given += 1
    return given


def test_caps_stop_the_run() -> None:
    """The rigorous mu^2, here 2 cap / s2^2, holds for the answers that were given only where the cap is enforced."""
    cap, std = 20, 40.0
    claimed = math.sqrt(2 * cap) / std
    capped = answers(100, cap, numpy_generator("test", "caps"))
    uncapped = answers(100, None, numpy_generator("test", "caps"))
    assert (capped, uncapped) == (20, 100)
    for given, refuted in ((capped, False), (uncapped, True)):
        assert gaussian_audit(math.sqrt(2 * given) / std, 1.0, claimed, "caps", given).refuted == refuted


def test_the_audit_of_a_gaussian_is_tight() -> None:
    """composed_delta of the Gaussian pair is the closed form: what the audits above compare with."""
    epsilons = np.array([0.5, 2.0])
    assert composed_delta(gaussian_pair(0.7), 4, epsilons) == pytest.approx(gaussian_delta(1.4, epsilons), rel=5e-3)
