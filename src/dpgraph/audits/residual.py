"""Audit of residual clipping: two independent batches (Theorem 3 of docs/privacy.md)."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from dpgraph.audits import theory
from dpgraph.audits.cases import KINDS, Settings
from dpgraph.audits.gadgets import Gadgets, Worst
from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.privacy.accountants.composition import composed_epsilon
from dpgraph.privacy.accountants.double_mixture import residual_pair
from dpgraph.privacy.auditing import joint_errors, profile_test

RATE, RATIO, NOISE = 0.1, 0.5, 0.25  # q1 = q2, C_n / C_s, noise std / C_s
DEGREE, CAP = 1, 1
ROOTS = theory.affected_roots(DEGREE, CAP, 1, 10**6)  # R = 3
COPIES = 1000  # graphs of four nodes in one step; about half of them reach R
DELTA = 1e-3
RESIDUAL = "two batches of residual clipping"
KIND = KINDS["dp-residual r=1"]


def residual(trials: int) -> AuditResult:
    """One step as dp-residual prepares it, R = 3, C_n = C_s / 2, noise C_s / 4.

    The attackers see the changed record's direction and, in a direction of its own, the self term of another affected
    root. One scores by the likelihood ratio of the claimed pair, the other by that under one batch for both terms: if
    the draws coincide, the self term reveals whether the neighbour term was drawn, and the pair is refuted.
    """
    pair = residual_pair(
        affected_roots=ROOTS, self_rate=RATE, neighbour_rate=RATE, neighbour_clip=RATIO, noise_std=NOISE
    )
    scores = []
    for present in (True, False):
        y, z = released(present, trials, RATE, NOISE)
        scores.append((_one_batch_log_ratio(y, z), pair.log_ratio(y)))
    errors = joint_errors(list(zip(*scores)))
    claim = f"epsilon {composed_epsilon(pair, steps=1, delta=DELTA):.2f} at delta {DELTA:g}, R = {ROOTS}"
    test = profile_test(errors, pair.delta)
    return statistical_result("residual", RESIDUAL, claim, trials, errors, test, DELTA)


@cache
def _worst() -> Worst:
    gadgets = Gadgets.of(COPIES, DEGREE, CAP, 1)
    return Worst.of(gadgets, gadgets.changed(KIND, Settings(max_degree=DEGREE, list_cap=CAP)), ROOTS)


def released(present: bool, trials: int, rate: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """(trials,) sums along the changed record's direction and along the witness' self term, in units of C_s."""
    settings = Settings(noise=noise, rate=rate, ratio=RATIO, max_degree=DEGREE, list_cap=CAP)
    # another learning rate is another cell: its own batches and noise
    settings = settings if present else _other(settings)
    worst = _worst()
    run = worst.run(KIND, settings, np.full(worst.count, present))
    positions = [run.step() for _ in range(-(-trials // worst.count))]
    y, z = (np.concatenate(part)[:trials] for part in zip(*positions))
    return y, z


def _other(settings: Settings) -> Settings:
    return Settings(**{**vars(settings), "learning_rate": 2 * settings.learning_rate})


def _one_batch_log_ratio(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """v (on side "with"), the witness and R - 2 others are drawn or not; self and neighbour terms go together."""

    def log_density(sign: int, own: tuple[tuple[float, float], ...]) -> np.ndarray:
        parts = []
        for weight, at in own:
            for drawn in (0, 1):
                for others in range(ROOTS - 1):
                    p = weight * (RATE if drawn else 1 - RATE) * binom.pmf(others, ROOTS - 2, RATE)
                    mean = at + sign * RATIO * (drawn + others)
                    parts.append(np.log(p) - ((y - mean) ** 2 + (z - drawn) ** 2) / (2 * NOISE**2))
        return np.asarray(logsumexp(np.stack(parts), axis=0))

    return log_density(1, ((1 - RATE, 0.0), (RATE, 1 + RATIO))) - log_density(-1, ((1.0, 0.0),))
