"""A3: a fixed partition of the roots, used in turn, is no Poisson sampling."""

from __future__ import annotations

import numpy as np

from dpgraph.audits.cases import Settings
from dpgraph.audits.coordinates import CoordinateRun
from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.privacy.accountants.composition import composed_delta, composed_epsilon
from dpgraph.privacy.auditing import joint_errors, profile_test
from dpgraph.privacy.mechanisms.trees import PoissonTrees

GROUPS, EPOCHS, NOISE = 8, 4, 1.0
DELTA = 1e-3
PARTITION = "batches against a known schedule"


def partition(trials: int) -> AuditResult:
    """A3: 4 epochs of 8 steps as dp-mlp prepares them, noise C, accounted as Poisson sampling at rate 1/8.

    Two attackers: one looks only at the steps at which a cyclic schedule would read the record, one mixes over all
    steps. The first sees a schedule, which the second misses; the second shows the power against Poisson batches.
    """
    steps = GROUPS * EPOCHS
    mechanism = PoissonTrees(
        num_roots=100, sampling_rate=1 / GROUPS, steps=steps, hops=0, delta=DELTA, noise_multiplier=NOISE
    )
    pair = mechanism.dominating_pair
    present = np.arange(2 * trials) // GROUPS % 2 == 0  # half of every group
    settings = Settings(noise=NOISE, rate=1 / GROUPS, steps=steps)
    run = CoordinateRun(present, settings, "partition", "")
    group = np.arange(2 * trials) % GROUPS
    known, mixed = np.zeros((2, 2 * trials))
    for step in range(steps):
        moved = run.step()
        known[group == step % GROUPS] += moved[group == step % GROUPS]
        mixed += pair.log_ratio(moved)
    errors = joint_errors([(score[present], score[~present]) for score in (known, mixed)])
    claim = (
        f"epsilon {composed_epsilon(pair, steps=steps, delta=DELTA):.2f} at delta {DELTA:g}, Poisson rate 1/{GROUPS}"
    )
    test = profile_test(errors, lambda epsilons: composed_delta(pair, steps=steps, epsilons=epsilons))
    return statistical_result("partition", PARTITION, claim, trials, errors, test, DELTA)
