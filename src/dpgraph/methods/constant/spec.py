"""Random and majority class (Igamberdiev and Habernal, first version)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from dpgraph.experiments.cell import LARGE, NetworkCell, Training, UndroppedMlp
from dpgraph.methods.constant import look
from dpgraph.methods.spec import MethodSpec
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.privacy.relation import PredictionInput, Relation


class AnyBatches(Training):
    """A baseline without batches takes the settings of the methods that it is compared with."""

    batch_size: Annotated[int, Field(ge=1, le=LARGE, description="Not read")] | None = None
    sampling_rate: Annotated[float, Field(gt=0, le=1, description="Not read")] | None = None
    num_splits: Annotated[int, Field(ge=1, le=LARGE, description="Not read")] | None = None


class ShareOfNodes(AnyBatches):
    train_share: Annotated[float, Field(gt=0, le=1, description="Share of the training nodes that are counted")] = 1.0


class RandomCell(NetworkCell):
    model: UndroppedMlp
    training: AnyBatches
    privacy: None = None


class MajorityCell(NetworkCell):
    model: UndroppedMlp
    training: ShareOfNodes
    privacy: None = None


def reads_nothing(cell: Any) -> PredictionInput:
    return PredictionInput.NOTHING


CONTRACT: dict[str, dict[str, Any]] = {
    "0-none": {"model": {"architecture": "mlp", "hops": 0, "width": 8}, "training": {"sampling_rate": 0.3}}
}

SPECS = (
    MethodSpec(
        "random",
        "Predicts a uniformly random class for every node; it reads no record, so its epsilon is 0.",
        "dpgraph.methods.constant.train:Random",
        RandomCell,
        CONTRACT,
        without_noise=NoRecord,
        inference=reads_nothing,
        look=look.random,
        problems=("node-classification", "images"),
        untouched={Relation.GRAPH: "a random class"},
    ),
    MethodSpec(
        "majority",
        "Predicts the most frequent training label for every node, without privacy.",
        "dpgraph.methods.constant.train:Majority",
        MajorityCell,
        CONTRACT,
        inference=reads_nothing,
        look=look.majority,
        problems=("node-classification", "images"),
        untouched={Relation.EDGE: "the most frequent class, which reads no edge"},
    ),
)
