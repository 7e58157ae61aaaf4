"""A small convolutional network without privacy: what the private methods on images are compared with."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from dpgraph.experiments.cell import Cell, RootBatches
from dpgraph.experiments.frozen import Finite
from dpgraph.methods.cost import loop_seconds
from dpgraph.methods.looks import ORANGE, Look
from dpgraph.methods.spec import MethodSpec
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.base import Size


class CnnModel(Finite):
    """Two convolutions of 3 x 3, each followed by ReLU and a maximum over 2 x 2, and two linear layers."""

    channels: Annotated[
        int, Field(ge=1, le=1000, description="Of the first convolution; the second has twice them")
    ] = 8
    width: Annotated[int, Field(ge=1, le=100_000, description="Of the hidden linear layer")] = 256


class CnnCell(Cell):
    model: CnnModel = CnnModel()
    training: RootBatches
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return "cnn", 0


def look(cell: Any) -> Look:
    return Look(ORANGE, "s", "-")


def own_record(cell: Any) -> PredictionInput:
    return PredictionInput.OWN_RECORD


def seconds(cell: Any, size: Size) -> float:
    """A convolution of 9 weights a channel and pixel, and the linear layers."""
    channels, width = cell.model.channels, cell.model.width
    forward = size.features * 9 * channels * (1 + channels / 2) + size.features // 16 * 2 * channels * width
    return loop_seconds(
        cell.training, 6 * forward * cell.training.roots_per_step(size.train_nodes), 2 * size.nodes * forward
    )


SPECS = (
    MethodSpec(
        "cnn",
        "A small convolutional network, trained on images without privacy.",
        "dpgraph.methods.images.train:Cnn",
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
