"""PATE on images: teachers on disjoint parts, noisy votes, and students that learn from them (Zhang, chapter 3)."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, Cell, Privacy, Training
from dpgraph.config.frozen import Finite
from dpgraph.config.streams import split_number
from dpgraph.engine.methods.cost import CONVOLUTION, DENSE_FLOPS_PER_SECOND, loop_seconds
from dpgraph.engine.methods.looks import BLUE, BROWN, GREEN, ORANGE, PURPLE, SKY, Look
from dpgraph.engine.methods.spec import OWN_RECORD, AttackCase, MethodSpec, Public, ScoreReads, Variant, own_record
from dpgraph.engine.models.image_convolutions import multiplications
from dpgraph.families.pate.mechanism import ConfidentGnmax, confident_gnmax
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size

LOOKS = {
    "frozen": Look(BROWN, "X", "-"),
    "supervised": Look(ORANGE, "v", "-"),
    "gan": Look(BLUE, "o", "-"),
    "co-teaching": Look(SKY, "s", "-"),
    "co-teaching+": Look(GREEN, "^", "-"),
    "cleansing": Look(PURPLE, "D", "-"),
}
TEACHERS_FLOPS = 20e9  # a second, of small batched products: 22e9 in a step of 25 teachers on 16 images each


class StudentModel(Finite):
    """Discriminators of two hidden layers, the second half as wide, or of seven convolutions; a generator of three
    dense layers."""

    teaching: Literal["frozen", "supervised", "gan", "co-teaching", "co-teaching+", "cleansing"] = "gan"
    """frozen (softmax on principal components of all public images), supervised (labelled images alone), gan
    (semi-supervised GAN, PATE), co-teaching (two discriminators), co-teaching+ (PATE+, Algorithm 1), cleansing
    (PATE++, Algorithm 3: half of the steps count noisy labels, half retrain without them)"""
    width: Annotated[int, Field(ge=2, le=100_000, description="Of the first hidden layer")] = 256
    latent: Annotated[
        int, Field(ge=1, le=100_000, description="Numbers that the generator starts from; of frozen: components")
    ] = 100
    discriminator: Literal["dense", "convolutional"] = "dense"
    """convolutional: seven convolutions, as the thesis has them"""
    discriminator_channels: Annotated[
        int, Field(ge=1, le=1000, description="Of the first three convolutions of a convolutional discriminator")
    ] = 96

    @model_validator(mode="after")
    def _frozen_has_none(self) -> Self:
        if self.teaching == "frozen" and self.discriminator != "dense":
            raise ValueError(f"discriminator={self.discriminator}: expected dense for teaching=frozen, which has none")
        return self


class StudentTraining(Training):
    """Settings of the student and of its teachers."""

    student_batch_size: Annotated[
        int, Field(ge=2, le=LARGE, description="B, images of each kind in a student's step")
    ] = 100
    noise_rate: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """beta, the estimated share of wrong labels: R(e) = 1 - beta min(e / 15, 1)"""
    removed_share: Annotated[float, Field(ge=0, lt=1)] = 0.318
    """tau, the share of labels that PATE++ removes"""
    decay: Annotated[float, Field(ge=0, le=1, description="alpha of PATE++'s counts")] = 0.9
    unsupervised: Literal["halved", "thesis"] = "halved"
    """Loss of images without labels, of two means: half their sum, or the sum that section 3.3.1 prints"""
    precision: Literal["float32"] = Field(default="float32", description="Votes depend on it, their noise does not")
    teachers: Annotated[int, Field(ge=1, le=100_000, description="On disjoint parts of the private images")] = 250
    teacher_channels: Annotated[int, Field(ge=1, le=1000, description="Of a first convolution")] = 8
    teacher_convolutions: Literal[2, 7] = 2
    """7: the thesis' deep network, with two hidden linear layers"""
    teacher_width: Annotated[int, Field(ge=1, le=100_000, description="Of a hidden linear layer")] = 32
    teacher_steps: Annotated[int, Field(ge=1, le=LARGE, description="Of each teacher")] = 200
    teacher_batch_size: Annotated[int, Field(ge=1, le=LARGE, description="Images in a step of a teacher")] = 16
    teacher_learning_rate: Annotated[float, Field(gt=0, description="Of Adam")] = 0.003

    def roots_per_step(self, num_train: int) -> float:
        return self.student_batch_size


class PlainStudentTraining(StudentTraining):
    """Settings of a student whose labels are noiseless majorities."""

    answers: Annotated[int, Field(ge=1, le=LARGE, description="Public images that get a label")] = 2200


class PatePrivacy(Privacy):
    """The budget of a release, its caps and threshold."""

    variant: Literal["rigorous", "published"] = "rigorous"
    """Which epsilon a target is: the proved one under public caps, or Proposition 2 of the thesis; what runs is the
    same"""
    noise_multiplier: Annotated[float, Field(gt=0, description="sigma_2 in votes")] | None = None
    clip_norm: Annotated[float, Field(ge=1, le=1, description="Not read: votes are counts")] = 1.0
    max_checks: Annotated[int, Field(ge=1, le=LARGE, description="Public cap on checks")] = 9000
    max_answers: Annotated[int, Field(ge=1, le=LARGE, description="Public cap on labels")] = 2200
    check_ratio: Annotated[float, Field(ge=1e-3, le=1e3, description="sigma_1 / sigma_2")] = 1.5
    threshold: Annotated[float, Field(ge=-10, le=10, description="T of a check, as a share of the teachers")] = 0.6

    @model_validator(mode="after")
    def _caps(self) -> Self:
        if self.max_answers > self.max_checks:
            raise ValueError(f"max_answers={self.max_answers}: expected at most max_checks={self.max_checks}")
        return self


class PateCell(Cell):
    """The settings of a student whose labels are noiseless majorities."""

    model: StudentModel = StudentModel()
    training: PlainStudentTraining
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return self.model.teaching, 0


STUDENTS = tuple(name for name in StudentTraining.model_fields if name != "steps")


class DpPateCell(PateCell):
    """The settings of a student whose labels are a private release."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        "model": ("teaching", "width", "latent", "discriminator", "discriminator_channels"),
        "training": STUDENTS,
        "privacy": ("threshold",),
    }

    training: StudentTraining  # type: ignore[assignment]
    privacy: PatePrivacy  # type: ignore[assignment]


def look(cell: Any) -> Look:
    return LOOKS[cell.model.teaching]


def teachers_seconds(training: Any, size: Size) -> float:
    """Estimate the seconds that the training of all teachers takes."""
    side = training.teacher_channels
    if training.teacher_convolutions == 2:
        image = size.features * 2 * (4 * side + 4 * side**2) + size.features / 4 * side * training.teacher_width
    else:
        image = 2 * convolved(size, side, training.teacher_width)
    read = training.teachers * (6 * training.teacher_steps * training.teacher_batch_size + 2 * size.nodes / 7)
    return float(image * read / TEACHERS_FLOPS)


def convolved(size: Size, channels: int, width: int) -> float:
    """Estimate the multiplications of one image, taken as grey and square, in seven convolutions."""
    side = max(4, round(size.features**0.5))
    return multiplications((side, side, 1), 7, channels, width)


def shared(cell: Any, size: Size, seed: int) -> tuple[Hashable, float]:
    """Return a name and the seconds of the teachers, which all students of a split with the same teachers share."""
    told = cell.training
    own = (told.teachers, told.teacher_channels, told.teacher_width, told.teacher_steps, told.teacher_batch_size)
    name = (cell.task, split_number(cell, seed), *own, told.teacher_learning_rate, told.teacher_convolutions)
    return name, teachers_seconds(told, size)


def seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed: the student, and teachers as if none had been trained before."""
    model, training = cell.model, cell.training
    peers = 1 if model.teaching in ("frozen", "supervised", "gan") else 2
    dense = size.features * model.width + model.width**2 / 2
    if model.discriminator == "convolutional":
        dense = convolved(size, model.discriminator_channels, 2 * model.discriminator_channels)
    step = 6 * training.student_batch_size * (3 * peers + 2) * dense
    look = 2 * size.nodes * dense
    return teachers_seconds(training, size) + loop_seconds(training, step, look, DENSE_FLOPS_PER_SECOND)


SMALL: dict[str, Any] = {
    "task": {"dataset": "demo-images", "split": "random-60-15-25"},
    "training": {
        "teachers": 5, "teacher_channels": 2, "teacher_width": 8, "teacher_steps": 30, "student_batch_size": 20
    },
}  # fmt: skip
BUDGET = {"epsilon": 6.0, "max_checks": 200, "max_answers": 50, "threshold": -10}


def small(teaching: str, variant: str | None, deep: bool = False, **told: Any) -> dict[str, Any]:
    """Return a small cell for the contract of methods."""
    training = SMALL["training"] | told | ({} if variant else {"answers": 50})
    model: dict[str, Any] = {"teaching": teaching, "width": 8, "latent": 4}
    if deep:
        training |= {"teacher_convolutions": 7}
        model |= {"discriminator": "convolutional", "discriminator_channels": 2}
    cell = {**SMALL, "training": training, "model": model}
    return cell | ({"privacy": {"variant": variant, **BUDGET}} if variant else {})


def score(cell: Any) -> ScoreReads:
    """Return the record of an image; the relation replaces training images alone."""
    return ScoreReads(OWN_RECORD, Public.BY_SPLIT, "public images")


VARIANTS = {
    "rigorous": Variant(ConfidentGnmax, confident_gnmax, score),
    "published": Variant(ConfidentGnmax, confident_gnmax, score, target="published"),
}
attack = partial(
    AttackCase, reads="teachers", batches=Batches.NONE, clipping=Clipped.NOTHING, relation=Relation.TRAINING_RECORD
)
ATTACKS = tuple(attack(variant=variant) for variant in VARIANTS)
TRAIN = "dpgraph.families.pate.train:Pate"
on_images = partial(
    MethodSpec, look=look, inference=own_record, problems=("images",), seconds=seconds, shared=shared,
    products=lambda cell: CONVOLUTION,
)  # fmt: skip

SPECS = (
    on_images(
        "dp-pate",
        "A student of teachers on disjoint parts of the images, whose noisy votes label public images.",
        TRAIN,
        DpPateCell,
        {
            "gan": small("gan", "rigorous"),
            "frozen": small("frozen", "rigorous"),
            "supervised": small("supervised", "published"),
            "co-teaching": small("co-teaching", "rigorous"),
            "cleansing": small("cleansing", "rigorous"),
            "as-printed": small("co-teaching+", "published", unsupervised="thesis"),
            "seven-convolutions": small("gan", "rigorous", deep=True),
        },
        VARIANTS,
        ATTACKS,
    ),
    on_images(
        "pate",
        "The same without noise: the majority of the teachers labels the first public images.",
        TRAIN,
        PateCell,
        {"co-teaching-plus": small("co-teaching+", None)},
    ),
)
