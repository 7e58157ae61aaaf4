"""The private part of PATE: teachers on disjoint parts of the images, whose noisy votes label public images once.

The release is Confident-GNMax (Papernot et al. 2018, Algorithm 1; Zhang 2021, chapter 3). One record trains one
teacher, so in every histogram at most one vote moves from one class to another: the largest count (a check) moves by at
most 1, the histogram (an answer) by at most sqrt(2). How many checks and answers are made depends on the data; public
caps stop the run, so that mu^2 = max_checks / sigma_1^2 + 2 max_answers / sigma_2^2 holds for any data.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpgraph.config.frozen import digest
from dpgraph.config.streams import split_number
from dpgraph.core.errors import invalid
from dpgraph.core.files import locked, write_array
from dpgraph.core.randomness import CountedGenerator
from dpgraph.data.records import TRAIN, VALIDATION, Records
from dpgraph.engine.models import image_convolutions
from dpgraph.engine.preparation.base import Order, PreparedStep
from dpgraph.families.pate import teachers as teachers_training
from dpgraph.families.pate.mechanism import ANSWERS, CHECKS, ConfidentGnmax
from dpgraph.families.pate.teachers import TeacherPlan, teachers_votes
from dpgraph.privacy.cache import VARIABLE
from dpgraph.privacy.procedure import NotAsAccounted, Procedure, Release

NO_ANSWER = -1


@dataclass(frozen=True)
class Answers:
    """Labels released for the queries, and the noise that was drawn for them."""

    labels: np.ndarray  # (Q,) int64 classes; NO_ANSWER where the check failed or the run had stopped
    _: KW_ONLY
    checks: int  # <= max_checks
    answers: int  # <= max_answers
    check_noise_std: float
    vote_noise_std: float
    numbers: int  # of all noise


def vote_histograms(predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """Count predicted classes (teachers, Q) by class: return (Q, classes)."""
    predictions = np.asarray(predictions)
    queries = predictions.shape[1]
    flat = (np.arange(queries) * num_classes + predictions).ravel()
    return np.bincount(flat, minlength=queries * num_classes).reshape(queries, num_classes)


def noisy_largest_count(votes: np.ndarray, noise_std: float, generator: np.random.Generator) -> np.ndarray:
    """Return the largest count (Q,) of each row plus N(0, noise_std^2): a check, of sensitivity 1."""
    return votes.max(axis=1) + noise_std * generator.standard_normal(len(votes))


def noisy_histograms(votes: np.ndarray, noise_std: float, generator: np.random.Generator) -> np.ndarray:
    """Return counts (Q, classes) plus N(0, noise_std^2) each; an answer is the largest, of sensitivity sqrt(2)."""
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
    """Answer queries in order with the largest noisy count, where the noisy largest count reaches `threshold`.

    The run stops after `max_checks` checks or `max_answers` answers, whichever comes first. The module states the
    guarantee; the queries have to be fixed beforehand.

    Args:
        votes: (Q, classes) counts of votes.
        threshold: Votes that a check has to reach.
        check_noise_std: Noise std of a check, in votes.
        vote_noise_std: Noise std of each count of an answer, in votes.
        max_checks: Public cap on checks.
        max_answers: Public cap on answers.
        generator: Secret noise.
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


SMALLEST_SIDE = 4
NOISE = "votes of teachers"  # the stream of checks, then of answers


def plan_of(cell: Any, seed: int) -> TeacherPlan:
    """Return the teachers' settings, which follow from the split: seeds and methods of a split share them."""
    told = cell.training
    return TeacherPlan(
        teachers=told.teachers,
        channels=told.teacher_channels,
        width=told.teacher_width,
        steps=told.teacher_steps,
        batch_size=told.teacher_batch_size,
        learning_rate=told.teacher_learning_rate,
        names=("dpgraph", cell.task.folder, "teachers", split_number(cell, seed)),
        convolutions=told.teacher_convolutions,
    )


def shape_of(records: Records) -> tuple[int, int, int]:
    """Return height, width and channels of the images. Raise UserError without a shape, or if it is too small."""
    shape: Any = records.meta.get("shape")
    if shape is None or min(shape[:2]) < SMALLEST_SIDE:
        raise invalid("shape", shape, f"images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels")
    height, width, channels = shape
    return int(height), int(width), int(channels)


def pool_of(records: Records) -> np.ndarray:
    """Return the (Q,) ids of the public images, those of validation, ascending. Raise UserError if there are none."""
    pool = np.flatnonzero(np.asarray(records.split) == VALIDATION)
    if len(pool) == 0:
        raise invalid("split", "without validation images", "some: they are the public images that teachers label")
    return pool


def votes_of(records: Records, plan: TeacherPlan, device: torch.device) -> np.ndarray:
    """Return the (teachers, Q) int16 votes from the cache, or train the teachers now. Only training labels are read.

    Cached files are named by a hash of settings, data, device kind and code. They are as private as the records.

    Raises:
        UserError: For fewer training images than teachers.
    """
    train = np.flatnonzero(np.asarray(records.split) == TRAIN)
    if plan.teachers > len(train):  # their number is public
        raise invalid("training.teachers", plan.teachers, f"at most {len(train)}, the number of training images")
    labels = np.full(len(records.split), -1, dtype=np.int64)
    labels[train] = np.asarray(records.labels)[train]
    features = np.array(records.features, dtype=np.float32, order="C")
    content = hashlib.sha256()
    for array in (features, labels, np.array(records.split)):
        content.update(array.data)
    told = [plan.told(), content.hexdigest(), device.type, _code(), torch.__version__]
    folder = Path(os.environ.get(VARIABLE) or ".cache/dpgraph") / "teachers" / digest(told, 32)
    pool = pool_of(records)
    with locked(folder):
        path = folder / "votes.npy"
        known = _stored(path, (plan.teachers, len(pool)))
        if known is None:
            known = teachers_votes(
                torch.from_numpy(features).to(device), torch.from_numpy(labels).to(device), shape_of(records),
                records.num_classes, train, pool, plan,
            )  # fmt: skip
            write_array(path, known)
    return known


def _stored(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    try:
        votes: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return votes if votes.shape == shape and votes.dtype == np.int16 else None


@lru_cache
def _code() -> str:
    """Hash the code that makes votes, so that teachers trained by other code are trained again."""
    files = [Path(str(module.__file__)) for module in (image_convolutions, teachers_training)]
    return digest([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])


class PreparedTeachers(PreparedStep):
    """The released labels of one seed. Training is post-processing of these labels and of public images."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(mechanism, ConfidentGnmax):
            raise TypeError(f"mechanism={mechanism.kind}: expected one of votes of teachers")
        self.gnmax, self.device = mechanism, order.device
        self.records: Records = order.data.graph
        self.plan = self.planned(order)
        self.threshold = order.privacy.threshold * self.plan.teachers
        # students of one release share it: same teachers, noise, caps and seed give the same labels
        # devices round differently, so that votes may differ: each kind has its own noise; a CPU's is named by nothing
        device = [self.device.type] if self.device.type != "cpu" else []
        told = digest([mechanism.chosen, self.plan.told(), self.threshold, *device], 32)
        names = ("dpgraph", order.cell.task.folder, NOISE, order.seed, told)
        self._noise = CountedGenerator(*names)
        order.ledger.open(NOISE, names, order.seed, secret=True, counter=self._noise)
        self.made: list[Release] = []
        self._labels: np.ndarray | None = None

    def planned(self, order: Order) -> Any:
        """Return the settings of the teachers, a dataclass that has their number."""
        return plan_of(order.cell, order.seed)

    def votes(self) -> np.ndarray:
        """Return the private (teachers, Q) votes."""
        return votes_of(self.records, self.plan, self.device)

    def labels(self) -> np.ndarray:
        """Return the (Q,) int64 classes of the public images in their order, the same at each call; NO_ANSWER: none."""
        if self._labels is None:
            mechanism = self.gnmax
            sigma = mechanism.closed()[1]
            check, answer = mechanism.check_ratio * sigma, sigma
            answers = confident_gnmax(
                vote_histograms(self.votes(), self.records.num_classes),
                threshold=self.threshold,
                check_noise_std=check,
                vote_noise_std=answer,
                max_checks=mechanism.max_checks,
                max_answers=mechanism.max_answers,
                generator=self._noise,
            )
            # how many were made is private: the caps are stated, unless the run went beyond them
            checks, labelled = max(answers.checks, mechanism.max_checks), max(answers.answers, mechanism.max_answers)
            self.made = [
                Release(kind=CHECKS, noise=answers.check_noise_std, sensitivity=1.0, count=checks),
                Release(kind=ANSWERS, noise=answers.vote_noise_std, sensitivity=2**0.5, count=labelled),
            ]
            if self._noise.numbers != answers.numbers:
                raise NotAsAccounted("votes of teachers: checks and answers share noise, so no epsilon holds")
            self._labels = answers.labels
        return self._labels

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return the release that was made and its free steps; no step counts before the release."""
        return Procedure.of_releases(self.mechanism.relation, tuple(self.made), self.steps)

    def notes(self) -> dict[str, Any]:
        """Return what the record of a run says about batches and lists."""
        return {"batches": "none", "edge_lists": "own record"}
