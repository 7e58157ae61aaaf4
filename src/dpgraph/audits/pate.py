"""A9: votes of teachers, of which one moves; and public caps on what is released."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.privacy.accountants.gaussian import gaussian_delta
from dpgraph.privacy.auditing import measured_errors, profile_test
from dpgraph.privacy.gnmax import confident_gnmax, noisy_histograms, noisy_largest_count
from dpgraph.randomness import numpy_generator

MU = 0.6  # of a check, and of an answer
CAP, QUERIES = 20, 100
DELTA = 1e-3
PATE = "a vote moves: check and answer"
WITH, WITHOUT = np.array([30, 12, 8]), np.array([29, 13, 8])


def pate(trials: int) -> AuditResult:
    """A9: one check (sensitivity 1) and one answer (sqrt 2), noise for mu = 0.6 each, so mu = 0.849 together.

    And a run over 100 queries on which all teachers agree, with caps of 20 checks or answers: no more are made.
    """
    stds = 1 / MU, math.sqrt(2) / MU
    generator = numpy_generator("audits", "pate", "")
    direction = (WITH - WITHOUT) / np.linalg.norm(WITH - WITHOUT)
    scores = []
    for votes in (WITH, WITHOUT):
        repeated = np.tile(votes, (trials, 1))
        check = noisy_largest_count(repeated, stds[0], generator) / stds[0]
        answer = noisy_histograms(repeated, stds[1], generator) @ direction / stds[1]
        moves = (1 / stds[0], np.linalg.norm(WITH - WITHOUT) / stds[1])
        scores.append(moves[0] * check + moves[1] * answer)
    errors = measured_errors(scores[0], scores[1])
    mu = math.sqrt(2) * MU
    test = profile_test(errors, lambda epsilons: np.asarray(gaussian_delta(mu=mu, epsilon=epsilons)))
    claim = f"mu = {mu:.3f} for a check and an answer; caps stop the run at {CAP}"
    result = statistical_result("pate", PATE, claim, trials, errors, test, DELTA)
    unanimous = np.tile([50, 0, 0], (QUERIES, 1))
    run = partial(confident_gnmax, unanimous, check_noise_std=stds[0], vote_noise_std=stds[1], generator=generator)
    few_answers = run(threshold=25.0, max_checks=QUERIES, max_answers=CAP)
    few_checks = run(threshold=500.0, max_checks=CAP, max_answers=QUERIES)
    return result.model_copy(
        update={
            "passed": result.passed and few_answers.answers <= CAP and few_checks.checks <= CAP,
            "finding": f"{result.finding}; {few_answers.answers} answers, {few_checks.checks} checks",
        }
    )
