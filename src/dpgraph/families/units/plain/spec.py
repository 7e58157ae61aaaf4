"""Networks on images without privacy: what the private methods on images are compared with; attacks on them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dpgraph.config.cell import Cell, RootBatches
from dpgraph.config.frozen import Finite
from dpgraph.engine.methods.cost import loop_seconds
from dpgraph.engine.methods.looks import ORANGE, Look
from dpgraph.engine.methods.spec import MethodSpec, own_record
from dpgraph.problems.base import Size


class ImageModel(Finite):
    """Two convolutions of 3 x 3, each followed by ReLU and a maximum over 2 x 2, and two linear layers; or softmax."""

    kind: Literal["cnn", "softmax"] = Field(
        default="cnn", description="softmax: regression on pixels, without channels and width"
    )
    channels: Annotated[
        int, Field(ge=1, le=1000, description="Of the first convolution; the second has twice them")
    ] = 8
    width: Annotated[int, Field(ge=1, le=100_000, description="Of the hidden linear layer")] = 256


class CnnModel(ImageModel):
    parameter_noise: Annotated[float, Field(ge=0, le=1000)] = Field(
        default=0.0,
        description="Std of normal numbers that are added to the trained parameters, over the root mean square of each "
        "layer's: a control of attacks, not a private mechanism",
    )


class InversionSettings(Finite):
    """Model inversion of the trained parameters, which costs no privacy (Zhang, Algorithm 4)."""

    attack: Literal["enhanced", "original", "strong"] = Field(
        default="enhanced",
        description="enhanced: Algorithm 4; original: plain descent from a black image (Fredrikson et al. 2015); "
        "strong: this project's, on the logarithm of the confidence, with Adam as its authors print it",
    )
    penalty: Literal["l1", "btv"] = Field(default="l1", description="Of enhanced and strong attack: Eq. 4.2 or 4.4")
    weight: Annotated[float, Field(ge=0, le=1000)] = Field(default=0.05, description="lambda, of the penalty")
    penalty_over: Literal["mean", "thesis"] = Field(
        default="mean", description="The penalty is a mean over pixels; or their sum, as the thesis prints it"
    )
    steps: Annotated[int, Field(ge=1, le=1_000_000, description="Steps of the attack")] = 1000
    learning_rate: Annotated[float, Field(gt=0, description="eta, of Adam or of plain descent")] = 0.1
    window: Annotated[int, Field(ge=1, le=3, description="p of the bilateral total variation")] = 2
    decay: Annotated[float, Field(gt=0, le=1, description="alpha of the bilateral total variation")] = 0.9


class CnnCell(Cell):
    model: CnnModel = CnnModel()
    training: RootBatches
    privacy: None = None
    inversion: InversionSettings | None = None

    @property
    def network(self) -> tuple[str, int]:
        return self.model.kind, 0


def look(cell: Any) -> Look:
    return Look(ORANGE, "s", "-")


def forward_flops(model: ImageModel, size: Size) -> float:
    """Of an image: a convolution of 9 weights a channel and pixel, and the linear layers."""
    if model.kind == "softmax":
        return float(size.features * size.classes)
    channels, width = model.channels, model.width
    return size.features * 9 * channels * (1 + channels / 2) + size.features // 16 * 2 * channels * width


def inversion_seconds(cell: Any, size: Size) -> float:
    """A pass of an image of every class in each step."""
    told = cell.inversion
    if told is None:
        return 0.0
    pixels = 60 * size.features if told.penalty == "btv" else 0
    return float(told.steps * (1e-3 + size.classes * (6 * forward_flops(cell.model, size) + pixels) / 20e9))


def seconds(cell: Any, size: Size) -> float:
    forward = forward_flops(cell.model, size)
    step = 6 * forward * cell.training.roots_per_step(size.train_nodes)
    return loop_seconds(cell.training, step, 2 * size.nodes * forward) + inversion_seconds(cell, size)


SPECS = (
    MethodSpec(
        "cnn",
        "A small convolutional network, or softmax regression, trained on images without privacy.",
        "dpgraph.families.units.plain.train:Cnn",
        CnnCell,
        {
            "none": {
                "task": {"dataset": "demo-images", "split": "random-60-15-25"},
                "model": {"channels": 2, "width": 8},
                "training": {"sampling_rate": 0.1},
            }
        },
        look=look,
        inference=own_record,
        problems=("images",),
        seconds=seconds,
    ),
)
