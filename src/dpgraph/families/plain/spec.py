"""Specifications of baselines that spread labels, logits or states over the raw graph, and of constant ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpgraph.config.cell import MlpModel, Model, NetworkCell, UndroppedMlp
from dpgraph.engine.methods.cost import network_seconds
from dpgraph.engine.methods.looks import GREEN, GREY, ORANGE, SKY, SLATE, Look
from dpgraph.engine.methods.spec import NO_STEPS, AnyBatches, FreeTraining, MethodSpec, StoppedTraining, captured
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.privacy.relation import PredictionInput, Relation
from dpgraph.problems.base import Size

Steps = Annotated[int, Field(ge=0, le=10_000)]
Teleport = Annotated[float, Field(ge=0, le=1)]


class SgcModel(UndroppedMlp):
    """Softmax regression on spread records."""

    encoder_layers: Annotated[int, Field(ge=0, le=0, description="SGC is softmax regression")]  # type: ignore[misc]
    decoder_layers: Annotated[int, Field(ge=1, le=1, description="SGC is softmax regression")] = 1
    spreading_steps: Steps = Field(default=2, description="K: products with the normalised adjacency")


class AppnpModel(MlpModel):
    """An MLP whose logits are spread."""

    spreading_steps: Steps = Field(default=10, description="K, steps of power iteration")
    teleport: Teleport = Field(default=0.1, description="alpha: weight of a node's own logits in each step")


class LabelPropagationModel(UndroppedMlp):
    """Settings of label propagation."""

    spreading_steps: Steps = Field(default=50, description="Steps of power iteration")
    teleport: Teleport = Field(default=0.1, description="alpha: weight of the labels in each step")


class CorrectAndSmoothModel(MlpModel):
    """An MLP whose predictions are corrected and smoothed."""

    spreading_steps: Steps = Field(default=50, description="Steps of power iteration, of residuals and of labels")
    correct_teleport: Teleport = Field(default=0.1, description="Weight of the residuals in each step")
    smooth_teleport: Teleport = 0.2
    """Weight of labels and corrected predictions in each step"""


class AttentionModel(Model):
    """Two layers without encoder or decoder; the first concatenates `heads` of `width` units.

    `dropout` applies to the inputs and attention weights of both layers.
    """

    DROPPED: ClassVar[tuple[str, ...]] = ("gat",)

    architecture: Literal["gat"]
    hops: Literal[2]
    output_heads: Annotated[int, Field(ge=1, le=1000, description="Heads of the second layer, averaged")] = 1
    inference_own_weight: Annotated[float, Field(ge=0, le=0)] = 0.0


class ShareOfNodes(AnyBatches):
    """A share of the training nodes."""

    train_share: Annotated[float, Field(gt=0, le=1, description="Share of the training nodes that are counted")] = 1.0


class RandomCell(NetworkCell):
    """A cell of method random."""

    model: UndroppedMlp
    training: AnyBatches
    privacy: None = None


class MajorityCell(NetworkCell):
    """A cell of method majority."""

    model: UndroppedMlp
    training: ShareOfNodes
    privacy: None = None


class SpreadingCell(NetworkCell):
    """A cell of a method that spreads labels, logits or states."""

    NAME: ClassVar[str]

    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        """Name and hops of the network: its own kind, which encoders with message passing do not share."""
        return self.NAME, 0


class SgcCell(SpreadingCell):
    """A cell of SGC."""

    NAME: ClassVar[str] = "sgc"
    model: SgcModel
    training: FreeTraining


class AppnpCell(SpreadingCell):
    """A cell of APPNP."""

    NAME: ClassVar[str] = "appnp"
    model: AppnpModel
    training: FreeTraining


class PmlpCell(SpreadingCell):
    """A cell of PMLP."""

    NAME: ClassVar[str] = "pmlp"
    model: MlpModel
    training: FreeTraining


class CorrectAndSmoothCell(SpreadingCell):
    """A cell of Correct and Smooth."""

    NAME: ClassVar[str] = "correct-and-smooth"
    model: CorrectAndSmoothModel
    training: FreeTraining


class LabelPropagationCell(SpreadingCell):
    """A cell of label propagation."""

    NAME: ClassVar[str] = "label-propagation"
    model: LabelPropagationModel
    training: AnyBatches


class AttentionCell(NetworkCell):
    """A cell of the literature's GAT."""

    model: AttentionModel
    training: StoppedTraining
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        """Name and hops of the network: its own kind, as the private networks' attention differs."""
        return "velickovic-gat", 2


def reads_nothing(cell: Any) -> PredictionInput:
    """Return what a prediction reads: no record."""
    return PredictionInput.NOTHING


def raw_graph(cell: Any) -> PredictionInput:
    """Return what a prediction reads: the raw graph."""
    return PredictionInput.RAW_GRAPH


def seconds(cell: Any, size: Size) -> float:
    """Return the predicted seconds of a perceptron and of products with the adjacency.

    APPNP and SGC multiply at each step, the others once per evaluation.
    """
    each = getattr(cell.model, "spreading_steps", 1) * size.entries * size.classes * 4e-10
    trained = isinstance(cell, SgcCell | AppnpCell)
    steps = cell.training.steps if trained else cell.training.evaluations
    return network_seconds(cell, size) + float(2 * steps * each)


def attention_seconds(cell: Any, size: Size) -> float:
    """Return the predicted seconds of dropped features and gathered states.

    A stopped run takes at most as long as an unstopped one.
    """
    model = cell.model
    states = model.width * model.heads + size.classes * model.output_heads
    each = size.nodes * size.features * 4e-9 + size.entries * states * 2e-8
    return float(cell.training.steps * (each + 2e-3))


MLP: dict[str, Any] = {"architecture": "mlp", "hops": 0, "width": 8}
TRAIN = "dpgraph.families.plain.train"


def spec(cell: type[SpreadingCell], summary: str, runs: str, look: Look, contract: dict[str, Any]) -> MethodSpec:
    """Return the specification of a method that spreads over the whole graph."""
    whole = {"model": {**MLP, **contract}, "training": {"sampling_rate": 1.0}}
    return MethodSpec(
        cell.NAME,
        summary,
        f"{TRAIN}:{runs}",
        cell,
        {"none": whole},
        look=lambda one: look,
        inference=raw_graph,
        seconds=seconds,
        deterministic=cell is LabelPropagationCell,
        why_not_captured=NO_STEPS if cell is LabelPropagationCell else captured,
    )


def grey_look(colour: str, dots: float) -> Callable[[Any], Look]:
    """Return the look of a line that reads no record, or labels alone: grey, behind all others."""
    return lambda cell: Look(colour, "", (0, (1, dots)), neutral=True)


on_no_record = partial(
    MethodSpec, contract={"0-none": {"model": MLP, "training": {"sampling_rate": 0.3}}}, inference=reads_nothing,
    why_not_captured=NO_STEPS, problems=("node-classification", "images"),
)  # fmt: skip

SPECS = (
    spec(SgcCell, "Softmax regression on records that were spread K times over the graph.", "Sgc",
         Look(GREEN, "<", "-"), {"encoder_layers": 0}),
    spec(AppnpCell, "An MLP whose logits are spread by power iteration with teleport, in training, too.", "Appnp",
         Look(SKY, ">", "-"), {"dropout": 0.5}),
    MethodSpec(
        "velickovic-gat",
        "The two-layer GAT of the literature: additive attention, dropped inputs and attention weights.",
        "dpgraph.families.plain.attention:AdditiveGat",
        AttentionCell,
        {"none": {"model": {"architecture": "gat", "hops": 2, "width": 4, "heads": 2, "dropout": 0.5},
                  "training": {"sampling_rate": 1.0, "patience": 2, "stop_on": "accuracy"}}},
        look=lambda one: Look(SLATE, "d", "-"),
        inference=raw_graph,
        seconds=attention_seconds,
        why_not_captured=captured,
    ),
    spec(PmlpCell, "An MLP trained on own records, whose layers pass messages in predictions.", "Pmlp",
         Look(ORANGE, "h", "-"), {"dropout": 0.5}),
    spec(CorrectAndSmoothCell, "An MLP on own records; then residuals and labels of training nodes are spread.",
         "CorrectAndSmooth", Look(SLATE, "p", "-"), {}),
    spec(LabelPropagationCell, "Labels of training nodes, spread over the graph; no record is read.",
         "LabelPropagation", Look(GREY, "d", "-"), {}),
    on_no_record(
        "random",
        "Predicts a uniformly random class for every node; it reads no record, so its epsilon is 0.",
        "dpgraph.families.plain.train:Random",
        RandomCell,
        without_noise=NoRecord,
        look=grey_look("#A0A0A0", 2),
        untouched={Relation.GRAPH: "a random class"},
    ),
    on_no_record(
        "majority",
        "Predicts the most frequent training label for every node, without privacy.",
        "dpgraph.families.plain.train:Majority",
        MajorityCell,
        look=grey_look("#606060", 1),
        deterministic=True,
        untouched={Relation.EDGE: "the most frequent class, which reads no edge"},
    ),
)  # fmt: skip
