"""A11: one training run with many canaries (Steinke, Nasr & Jagielski 2023)."""

from __future__ import annotations

import numpy as np

from dpgraph.audits.cases import Settings
from dpgraph.audits.coordinates import CoordinateRun
from dpgraph.audits.result import AuditResult, Point
from dpgraph.privacy.accountants.composition import composed_delta, composed_epsilon
from dpgraph.privacy.auditing import one_run_delta, one_run_epsilon, one_run_guesses
from dpgraph.privacy.mechanisms.trees import PoissonTrees
from dpgraph.randomness import numpy_generator

STEPS, RATE, NOISE = 16, 0.25, 2.0
DELTA = 1e-5
SHARE = 0.2  # of the canaries that are guessed
ONE_RUN = "one run, canaries in by coin flips"


def one_run(trials: int) -> AuditResult:
    """A11: `trials` = m canaries, each in with probability 1/2, in a single run of 16 steps at rate 1/4.

    Guesses in the 10 % with the highest likelihood ratio, out the 10 % with the lowest.
    """
    claimed = PoissonTrees(
        num_roots=trials, sampling_rate=RATE, steps=STEPS, hops=0, delta=DELTA, noise_multiplier=NOISE
    )
    pair = claimed.dominating_pair
    # canaries that are out leave their place: the number of roots is public
    present = numpy_generator("audits", "one run", "").random(trials) < 0.5
    settings = Settings(noise=NOISE, rate=claimed.sampling_rate, steps=STEPS)
    run = CoordinateRun(present, settings, "one run", "")
    scores = sum(pair.log_ratio(run.step()) for _ in range(STEPS))
    guesses = 2 * max(1, round(SHARE * trials / 2))
    correct = one_run_guesses(np.asarray(scores), present, guesses)
    epsilons = np.linspace(0.0, 8.0, 65)
    measured = one_run_delta(correct=correct, guesses=guesses, canaries=trials, epsilon=epsilons)
    promised = composed_delta(pair, steps=STEPS, epsilons=epsilons)
    epsilon = composed_epsilon(pair, steps=STEPS, delta=DELTA)
    shown = one_run_epsilon(correct=correct, guesses=guesses, canaries=trials, delta=DELTA)
    return AuditResult(
        audit="one-run",
        title=ONE_RUN,
        passed=bool(np.all(measured <= promised)),
        claim=f"epsilon {epsilon:.2f} at delta {DELTA:g}",
        finding=f"eps_lb {shown:.3g} at delta {DELTA:g}; {correct} of {guesses} guesses right",
        trials=trials,
        curve=tuple(
            Point(epsilon=e, claimed=c, measured=m)
            for e, c, m in zip(epsilons.tolist(), promised.tolist(), measured.tolist())
        ),
    )
