"""Random and majority class (Igamberdiev and Habernal, first version)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from dpgraph.config.cell import NetworkCell, UndroppedMlp
from dpgraph.engine.methods.spec import AnyBatches, MethodSpec
from dpgraph.families.plain.constant import look
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.privacy.relation import PredictionInput, Relation


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
        "dpgraph.families.plain.constant.train:Random",
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
        "dpgraph.families.plain.constant.train:Majority",
        MajorityCell,
        CONTRACT,
        inference=reads_nothing,
        look=look.majority,
        problems=("node-classification", "images"),
        deterministic=True,
        untouched={Relation.EDGE: "the most frequent class, which reads no edge"},
    ),
)
