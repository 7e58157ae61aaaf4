"""Audits of PATE: whom a record teaches, and the noise and the caps of the release that follows.

Teachers, parts and the release are those that the method prepares for its cells.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import norm

from dpgraph.audits.cases import CPU, TEACHER_KINDS, Kind, prepared_of
from dpgraph.audits.graphs import random_images
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.core.randomness import numpy_generator
from dpgraph.families.pate.prepared import PreparedTeachers, votes_of
from dpgraph.privacy.cache import VARIABLE
from dpgraph.privacy.procedure import NotAsAccounted
from dpgraph.problems.images.value import Images

TEACHERS, SIDE, CLASSES, RECORDS = 6, 4, 3, 60
SIGMA, RATIO, THRESHOLD = 9.0, 1.5, 0.5  # std of an answer in votes; of a check over it; share of teachers
LEVEL = 5.0  # standard deviations
TITLE = "teachers' parts, and noise and caps of the release of their votes"


def images(public: int) -> Images:
    """Return `RECORDS` training images, `public` public ones and one test image, all of random pixels."""
    random, size = numpy_generator("audits", "teachers"), RECORDS + public + 1
    return random_images(random, np.arange(size) % CLASSES, SIDE, public)


def prepared(kind: Kind, value: Images, seed: int, caps: tuple[int, int]) -> PreparedTeachers:
    """Return the prepared step of a cell with `TEACHERS` small teachers and these caps on checks and answers."""
    settings = {
        "task": {"dataset": "demo-images", "split": "random-60-15-25"},
        "method": kind.method,
        "training": {
            "learning_rate": 0.1, "steps": 1, "student_batch_size": 4, "teachers": TEACHERS, "teacher_channels": 2,
            "teacher_width": 4, "teacher_steps": 20, "teacher_batch_size": 4,
        },
        "privacy": budget_of(kind, caps),
    }  # fmt: skip
    return prepared_of(PreparedTeachers, value, settings, RECORDS, seed=seed)


def taught(kind: Kind) -> int:
    """Return the most teachers whose votes change when one record is replaced, over every seventh record."""
    value, most = images(30), 0
    step = prepared(kind, value, 0, (20, 10))
    before = votes_of(step.records, step.plan, CPU)
    for record in range(0, RECORDS, 7):
        features, labels = value.features.copy(), value.labels.copy()
        features[record], labels[record] = 1 - features[record], (labels[record] + 1) % CLASSES
        other = prepared(kind, replace(value, features=features, labels=labels), 0, (20, 10))
        after = votes_of(other.records, other.plan, CPU)
        most = max(most, int((before != after).any(axis=1).sum()))
    return most


Prepare = Callable[[int, int, tuple[int, int]], PreparedTeachers]  # of public records, seed and caps


def laws(prepare: Prepare, trials: int) -> dict[str, float]:
    """Return how far the shares of answered queries and of the first class are from their laws, in standard deviations.

    Every query has the votes (4, 2, 0). The share of the first class is among answers of the first two classes.
    """
    found = {}
    votes = np.tile(np.array([0, 0, 0, 0, 1, 1], dtype=np.int16)[:, None], (1, trials))
    step = prepare(trials, 1, (trials, trials))
    with patch.object(type(step), "votes", lambda self: votes):
        labels = step.labels()
    answered = labels >= 0
    passing = float(norm.cdf((4 - THRESHOLD * TEACHERS) / (RATIO * SIGMA)))
    found["checks"] = _deviation(int(answered.sum()), trials, passing)
    first, second = int((labels == 0).sum()), int((labels == 1).sum())
    # given that the third class does not win: by a long simulation of the law, its own generator
    noise = SIGMA * numpy_generator("audits", "teachers", "law").standard_normal((400_000, 3)) + np.array([4, 2, 0])
    wins = np.bincount(noise.argmax(axis=1), minlength=3)
    found["answers"] = _deviation(first, first + second, float(wins[0] / (wins[0] + wins[1])))
    return found


def _deviation(seen: int, count: int, share: float) -> float:
    return (seen - count * share) / math.sqrt(max(count, 1) * share * (1 - share))


def over_caps(prepare: Prepare) -> bool:
    """Tell whether a run exceeds its cap on answers, or misstates it, when all teachers agree."""
    step = prepare(100, 2, (50, 10))
    with patch.object(type(step), "votes", lambda self: np.zeros((TEACHERS, 100), dtype=np.int16)):
        made = int((step.labels() >= 0).sum())
    try:
        step.check()
    except NotAsAccounted:
        return True
    return made > 10


def teachers(trials: int) -> AuditResult:
    """Test that a record moves one teacher's votes, and that noise and caps of the release are as accounted for."""
    broken: list[str] = []
    # no votes of before: they may be of other code
    with TemporaryDirectory() as folder, patch.dict(os.environ, {VARIABLE: folder}):
        for name, kind in TEACHER_KINDS.items():
            if (count := taught(kind)) != 1:
                broken.append(f"{name}: a record moves {count} teachers")
            broken += released(name, partial(_of_images, kind), trials)
    return judged("teachers", TITLE, f"as Theorem 26 wants, of {len(TEACHER_KINDS)} variants", broken, trials)


def judged(audit: str, title: str, claim: str, broken: list[str], trials: int) -> AuditResult:
    """Return the result of an audit of teachers: it passes if the list `broken` is empty."""
    finding = "; ".join(broken) or "one teacher, the noise of both, and both caps"
    return AuditResult(audit=audit, title=title, passed=not broken, claim=claim, finding=finding, trials=trials)


def budget_of(kind: Kind, caps: tuple[int, int]) -> dict[str, Any]:
    """Return the settings of privacy of a release with these caps."""
    return {
        "variant": kind.variant, "noise_multiplier": SIGMA, "delta": 1e-3, "check_ratio": RATIO,
        "threshold": THRESHOLD, "max_checks": caps[0], "max_answers": caps[1],
    }  # fmt: skip


def released(name: str, prepare: Prepare, trials: int) -> list[str]:
    """Return the faults of the noise and the caps of a release; empty: none."""
    broken = [
        f"{name}, {what}: {z:.3g} standard deviations"
        for what, z in laws(prepare, trials).items()
        if not abs(z) < LEVEL
    ]
    return [*broken, f"{name}: caps do not stop the run"] if over_caps(prepare) else broken


def _of_images(kind: Kind, public: int, seed: int, caps: tuple[int, int]) -> PreparedTeachers:
    return prepared(kind, images(public), seed, caps)


AUDITS = {"teachers": Audit(teachers, 10_000)}
