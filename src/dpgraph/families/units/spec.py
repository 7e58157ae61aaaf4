"""DP-SGD whose protected unit is an image, a class or a subclass (Zhang, chapter 4, Algorithm 5)."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, Cell, Privacy, RootBatches, Training
from dpgraph.config.frozen import Finite
from dpgraph.engine.methods import spec
from dpgraph.engine.methods.cost import CONVOLUTION, NETWORK, loop_seconds
from dpgraph.engine.methods.looks import BLUE, GREEN, ORANGE, PURPLE, SKY, Look
from dpgraph.engine.methods.spec import AttackCase, MethodSpec, ScoreReads, Variant
from dpgraph.families.units import mechanism as mechanisms
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.problems.base import Size


class ImageModel(Finite):
    """Two convolutions of 3 x 3, each followed by ReLU and a maximum over 2 x 2, and two linear layers; or softmax."""

    kind: Literal["cnn", "softmax"] = "cnn"
    """softmax: regression on pixels, without channels and width"""
    channels: Annotated[
        int, Field(ge=1, le=1000, description="Of the first convolution; the second has twice them")
    ] = 8
    width: Annotated[int, Field(ge=1, le=100_000, description="Of the hidden linear layer")] = 256


class CnnModel(ImageModel):
    """A network without privacy; noise on its parameters may stand in for a defence."""

    parameter_noise: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Std of normal numbers that are added to the trained parameters, over the root mean square of each layer's: a
    control of attacks, not a private mechanism"""


class InversionSettings(Finite):
    """Model inversion of the trained parameters, which costs no privacy (Zhang, Algorithm 4)."""

    attack: Literal["enhanced", "original", "strong"] = "enhanced"
    """enhanced: Algorithm 4; original: plain descent from a black image (Fredrikson et al. 2015); strong: this
    project's, on the logarithm of the confidence, with Adam as its authors print it"""
    penalty: Literal["l1", "btv"] = Field(default="l1", description="Of enhanced and strong attack: Eq. 4.2 or 4.4")
    weight: Annotated[float, Field(ge=0, le=1000)] = Field(default=0.05, description="lambda, of the penalty")
    penalty_over: Literal["mean", "thesis"] = "mean"
    """The penalty is a mean over pixels; or their sum, as the thesis prints it"""
    steps: Annotated[int, Field(ge=1, le=1_000_000, description="Steps of the attack")] = 1000
    learning_rate: Annotated[float, Field(gt=0, description="eta, of Adam or of plain descent")] = 0.1
    window: Annotated[int, Field(ge=1, le=3, description="p of the bilateral total variation")] = 2
    decay: Annotated[float, Field(gt=0, le=1, description="alpha of the bilateral total variation")] = 0.9


class CnnCell(Cell):
    """The settings of a network without privacy, and of an attack on it."""

    model: CnnModel = CnnModel()
    training: RootBatches
    privacy: None = None
    inversion: InversionSettings | None = None

    @property
    def network(self) -> tuple[str, int]:
        return self.model.kind, 0


def plain_look(cell: Any) -> Look:
    return Look(ORANGE, "s", "-")


def forward_flops(model: ImageModel, size: Size) -> float:
    """Return the multiplications of one image: 9 weights per channel and pixel of a convolution, and linear layers."""
    if model.kind == "softmax":
        return float(size.features * size.classes)
    channels, width = model.channels, model.width
    return size.features * 9 * channels * (1 + channels / 2) + size.features // 16 * 2 * channels * width


def products(cell: Any) -> str:
    """Return the kind of an image network's products."""
    return NETWORK if cell.model.kind == "softmax" else CONVOLUTION


def inversion_seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of the attack: a pass of one image of every class in each step."""
    told = cell.inversion
    if told is None:
        return 0.0
    pixels = 60 * size.features if told.penalty == "btv" else 0
    return float(told.steps * (1e-3 + size.classes * (6 * forward_flops(cell.model, size) + pixels) / 20e9))


def plain_seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed without privacy."""
    forward = forward_flops(cell.model, size)
    step = 6 * forward * cell.training.roots_per_step(size.train_nodes)
    return loop_seconds(cell.training, step, 2 * size.nodes * forward) + inversion_seconds(cell, size)


PARTED, BY_CLASS = ("subclass", "kmeans"), ("class", "subclass")


class UnitTraining(Training):
    """Batches of units, and the images that a step reads of each."""

    sampling_rate: Annotated[float, Field(gt=0, le=1, description="q, at which each unit enters a step")]
    precision: Literal["float32"] = Field(default="float32", description="A product sums the clipped gradients")
    images_per_unit: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """Images of a drawn unit that a step reads, drawn from it with replacement; null: all"""

    def roots_per_step(self, num_train: int) -> float:
        return num_train * self.sampling_rate


class UnitPrivacy(Privacy):
    """The budget of training on units, and which units are protected."""

    variant: Literal["class", "subclass", "kmeans", "record"]
    """The unit that is replaced: all images of a class; of a subclass, whose partition is a public function of each
    image; of a k-means cluster of a class's private images, as published and without a proof; one image"""
    subclasses: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """k_sub, parts of each class (variants subclass and kmeans)"""

    @model_validator(mode="after")
    def _parts(self) -> Self:
        if (self.subclasses is not None) != (self.variant in PARTED):
            wanted = "a number" if self.variant in PARTED else "null"
            raise ValueError(f"subclasses={self.subclasses}: expected {wanted} for variant {self.variant}")
        return self


class DpUnitsCell(Cell):
    """The settings of private training on units, and of an attack on its result."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        "model": tuple(ImageModel.model_fields),
        **Cell.NOISE_IGNORES,
        "training": (*Cell.NOISE_IGNORES["training"], "images_per_unit"),
    }

    model: ImageModel = ImageModel()
    training: UnitTraining
    privacy: UnitPrivacy
    inversion: InversionSettings | None = None

    @model_validator(mode="after")
    def _split_is_public(self) -> Self:
        split, variant = self.task.split, self.privacy.variant
        if variant in BY_CLASS and split not in ("public", "train-rest"):
            raise ValueError(
                f"split={split}, variant={variant}: expected public or train-rest: a drawn split shuffles all images "
                "together, so that images of one class decide which others train"
            )
        return self

    @cached_property
    def for_calibration(self) -> Self | None:
        """Return the cell without the attack, which changes no noise."""
        cell = super().for_calibration
        return None if cell is None else cell.model_copy(update={"inversion": None})

    @property
    def network(self) -> tuple[str, int]:
        return self.model.kind, 0


LOOKS = {
    "record": Look(SKY, "o", "-"),
    "class": Look(GREEN, "^", "-"),
    "subclass": Look(BLUE, "D", "-"),
    "kmeans": Look(PURPLE, "v", (0, (4, 2))),
}


def look(cell: Any) -> Look:
    return LOOKS[cell.privacy.variant]


def seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed: passes of the images that a step reads, and gradients of many small units."""
    parts = cell.privacy.subclasses or 1
    units = size.train_nodes if cell.privacy.variant == "record" else size.classes * parts
    most = cell.training.images_per_unit or size.train_nodes / units
    read = cell.training.sampling_rate * units * min(most, size.train_nodes / units * 2)
    forward = forward_flops(cell.model, size)
    step = 9 * forward * read  # forward, backward, and the products that form gradients
    return loop_seconds(cell.training, step, 2 * size.nodes * forward) + inversion_seconds(cell, size)


def small(variant: str) -> dict[str, Any]:
    """Return a small cell for the contract of methods."""
    parted = {"subclasses": 2} if variant in PARTED else {}
    split = {} if variant in BY_CLASS else {"split": "random-60-15-25"}
    return {
        "task": {"dataset": "demo-images", **split},
        "model": {"channels": 2, "width": 8} if variant != "class" else {"kind": "softmax"},
        "training": {"sampling_rate": 0.02} if variant == "record" else {"sampling_rate": 0.3, "images_per_unit": 20},
        "privacy": {"variant": variant, "epsilon": 6.0, **parted},
    }


def as_printed() -> dict[str, Any]:
    """Return a class-DP cell as the thesis prints it: all images of a class, its clip norm, a penalty that is a sum."""
    attack = {"penalty": "btv", "penalty_over": "thesis", "weight": 0.001, "learning_rate": 0.05, "steps": 5}
    told = {"training": {"sampling_rate": 0.33}, "privacy": {"variant": "class", "epsilon": 6.0, "clip_norm": 10.0}}
    return small("class") | told | {"inversion": attack}


def scored_on_units(cell: Any) -> ScoreReads:
    """Return the record of an image, and labels of a unit's own images."""
    return ScoreReads(spec.OWN_RECORD, spec.Public.NO, "validation images", "which belong to the protected classes")


VARIANTS = {
    "class": Variant(mechanisms.ClassUnits, mechanisms.class_units, scored_on_units),
    "subclass": Variant(mechanisms.SubclassUnits, mechanisms.subclass_units, scored_on_units),
    "kmeans": Variant(mechanisms.ClusterUnits, mechanisms.cluster_units, scored_on_units, target="published"),
    "record": Variant(mechanisms.RecordUnits, mechanisms.record_units, spec.scored_on_own_records),
}
ATTACKS = tuple(
    AttackCase(
        variant=name, reads="units", batches=Batches.POISSON, clipping=Clipped.ROOT, relation=one.mechanism.relation
    )
    for name, one in VARIANTS.items()
)

on_images = partial(MethodSpec, inference=spec.own_record, problems=("images",))

SPECS = (
    on_images(
        "dp-units",
        "DP-SGD on images: an image, a class or a subclass is one clipped vector; the cell's variant states which.",
        "dpgraph.families.units.train:DpUnits",
        DpUnitsCell,
        {variant: small(variant) for variant in VARIANTS} | {"class-as-printed": as_printed()},
        VARIANTS,
        ATTACKS,
        look=look,
        seconds=seconds,
        products=products,
    ),
    on_images(
        "cnn",
        "A small convolutional network, or softmax regression, trained on images without privacy.",
        "dpgraph.families.units.train:Cnn",
        CnnCell,
        {
            "none": {
                "task": {"dataset": "demo-images", "split": "random-60-15-25"},
                "model": {"channels": 2, "width": 8},
                "training": {"sampling_rate": 0.1},
            }
        },
        look=plain_look,
        why_not_captured=spec.captured,
        seconds=plain_seconds,
        products=products,
    ),
)
