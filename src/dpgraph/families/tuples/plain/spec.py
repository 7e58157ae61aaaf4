"""Relation prediction from fixed features: cosines, and a linear map trained with InfoNCE.

The text encoders of Huang et al. train such a score end to end; these are what they are compared with.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from dpgraph.config.cell import Cell, RootBatches
from dpgraph.config.frozen import Finite
from dpgraph.engine.methods.cost import loop_seconds
from dpgraph.engine.methods.looks import BLUE, DASH_DOT, GREY, Look
from dpgraph.engine.methods.spec import AnyBatches, MethodSpec, own_record
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size

LARGEST_WIDTH = 100_000


class LinearMap(Finite):
    width: Annotated[int, Field(ge=1, le=LARGEST_WIDTH, description="d, numbers of an entity's state")] = 256


class InfoNce(RootBatches):
    temperature: Annotated[float, Field(gt=0, le=1000, description="tau of InfoNCE")] = 0.1


class CosineCell(Cell):
    training: AnyBatches
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return "linear", 0


class LinearRelationCell(Cell):
    model: LinearMap = LinearMap()
    training: InfoNce
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return "linear", 0


def zero_shot_look(cell: Any) -> Look:
    return Look(GREY, "x", ":", neutral=True)


def linear_look(cell: Any) -> Look:
    return Look(BLUE, ">", DASH_DOT)


def no_training(cell: Any, size: Size) -> float:
    return 1.0


def seconds(cell: Any, size: Size) -> float:
    """The map of heads and tails, and the scores of all pairs of a batch."""
    width, batch = cell.model.width, cell.training.roots_per_step(size.train_nodes)
    forward = 2 * batch * size.features * width + batch**2 * width
    return loop_seconds(cell.training, 6 * forward, 2 * size.nodes * size.features * width)


TASK = {"dataset": "demo-relations", "split": "random-60-15-25"}

SPECS = (
    MethodSpec(
        "cosine",
        "Ranks entities by the cosine of their features; it trains nothing.",
        "dpgraph.families.tuples.plain.train:Cosine",
        CosineCell,
        {"none": {"task": TASK, "training": {"sampling_rate": 0.1}}},
        look=zero_shot_look,
        inference=own_record,
        problems=("relations",),
        seconds=no_training,
        deterministic=True,
        untouched={Relation.ENTITY: "untrained vectors"},
    ),
    MethodSpec(
        "linear-relation",
        "Ranks entities by inner products of a linear map of their features, trained with InfoNCE without privacy.",
        "dpgraph.families.tuples.plain.train:LinearRelation",
        LinearRelationCell,
        {"none": {"task": TASK, "model": {"width": 4}, "training": {"sampling_rate": 0.01}}},
        look=linear_look,
        inference=own_record,
        problems=("relations",),
        seconds=seconds,
    ),
)
