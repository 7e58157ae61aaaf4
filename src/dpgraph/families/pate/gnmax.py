"""Confident-GNMax: noisy votes of teachers answer the student's queries (Papernot et al. 2018, Algorithm 1; Zhang 2021,
chapter 3).

Adjacency: one record, which trains one teacher, so that in every histogram at most one vote moves from one class to
another. Then the largest count moves by at most 1 (a check) and the histogram by at most sqrt(2) (an answer).
Checks and answers that are made are data-dependent numbers. Public caps stop the run before they are exceeded, so that
mu^2 = max_checks / sigma_1^2 + 2 max_answers / sigma_2^2 holds whatever the data are (`capped_epsilon`).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

NO_ANSWER = -1


@dataclass(frozen=True)
class Answers:
    labels: np.ndarray  # (Q,) int64 classes; NO_ANSWER where the check failed or the run had stopped
    _: KW_ONLY
    checks: int  # <= max_checks
    answers: int  # <= max_answers
    check_noise_std: float
    vote_noise_std: float
    numbers: int  # of all noise


def vote_histograms(predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """(teachers, Q) predicted classes -> (Q, classes) counts."""
    predictions = np.asarray(predictions)
    queries = predictions.shape[1]
    flat = (np.arange(queries) * num_classes + predictions).ravel()
    return np.bincount(flat, minlength=queries * num_classes).reshape(queries, num_classes)


def noisy_largest_count(votes: np.ndarray, noise_std: float, generator: np.random.Generator) -> np.ndarray:
    """(Q,) largest count of each row plus N(0, noise_std^2): a check, sensitivity 1."""
    return votes.max(axis=1) + noise_std * generator.standard_normal(len(votes))


def noisy_histograms(votes: np.ndarray, noise_std: float, generator: np.random.Generator) -> np.ndarray:
    """(Q, classes) counts plus N(0, noise_std^2) each: an answer is the largest of them, sensitivity sqrt(2)."""
    return votes + noise_std * generator.standard_normal(votes.shape)


def confident_gnmax(
    votes: np.ndarray,
    *,
    threshold: float,
    check_noise_std: float,
    vote_noise_std: float,
    max_checks: int,
    max_answers: int,
    generator: np.random.Generator,
) -> Answers:
    """Answers queries in order: argmax of the noisy histogram where the noisy largest count reaches `threshold`.

    `votes` (Q, classes) counts; stds are standard deviations in votes. The run stops after `max_checks` checks or
    `max_answers` answers, whichever comes first. Guarantee: see the module; the queries are fixed beforehand.
    """
    votes = np.asarray(votes)
    passed = noisy_largest_count(votes[:max_checks], check_noise_std, generator) >= threshold
    answered = np.flatnonzero(passed)[:max_answers]
    checks = int(answered[-1]) + 1 if len(answered) == max_answers else len(passed)
    labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
    labels[answered] = noisy_histograms(votes[answered], vote_noise_std, generator).argmax(axis=1)
    return Answers(
        labels,
        checks=checks,
        answers=len(answered),
        check_noise_std=check_noise_std,
        vote_noise_std=vote_noise_std,
        numbers=len(passed) + len(answered) * votes.shape[1],
    )
