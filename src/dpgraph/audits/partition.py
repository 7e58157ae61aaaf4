"""A3: a fixed partition of the roots, used in turn, is no Poisson sampling."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpgraph.audits.cases import Settings
from dpgraph.audits.coordinates import CoordinateRun
from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.privacy.accountants.composition import composed_delta, composed_epsilon
from dpgraph.privacy.auditing import joint_errors, profile_test
from dpgraph.privacy.mechanisms.trees import PoissonTrees
from dpgraph.privacy.procedure import Batches

GROUPS, EPOCHS, NOISE = 8, 4, 1.0
DELTA = 1e-3
PARTITION = "batches against a known schedule"


@dataclass
class CyclicPartition:
    """Group t mod `GROUPS` at step t: graph splits as Igamberdiev & Habernal draw them, once and for all."""

    num_roots: int
    name: Batches = Batches.POISSON  # as it claims
    _steps: int = field(default=0)

    @property
    def expected_size(self) -> float:
        return self.num_roots / GROUPS

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        group = self._steps % GROUPS
        self._steps += 1
        return np.flatnonzero(np.arange(self.num_roots) % GROUPS == group)


PARTITION_BUGS = {"cyclic partition": CyclicPartition}


def partition(trials: int, planted: str | None = None) -> AuditResult:
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
    sampler = CyclicPartition(2 * trials) if planted else None
    settings = Settings(noise=NOISE, rate=1 / GROUPS, steps=steps)
    run = CoordinateRun(present, settings, "partition", planted or "", sampler=sampler)  # type: ignore[arg-type]
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
    return statistical_result("partition", PARTITION, planted, claim, trials, errors, test, DELTA)
