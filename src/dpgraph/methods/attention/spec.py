"""The graph attention network of Velickovic et al. (2018) without privacy: the literature's GAT, for baselines."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpgraph.experiments.cell import LARGE, Model, NetworkCell, RootBatches
from dpgraph.methods.cost import EARLY_STOP, network_seconds
from dpgraph.methods.looks import BROWN, Look
from dpgraph.methods.spec import MethodSpec
from dpgraph.problems.base import Size

SECONDS_PER_ENTRY = 5e-7  # and step: weights and messages of both layers, there and back, of 64 units; measured


class VelickovicModel(Model):
    DROPPED: ClassVar[tuple[str, ...]] = ("velickovic",)

    architecture: Literal["velickovic"]  # type: ignore[assignment]
    hops: Literal[2]
    # no defaults of their own: those of `Model` are of another network, and defaults never change their meaning
    width: Annotated[int, Field(ge=1, le=100_000, description="Units of each head of the first layer (8)")]
    heads: Annotated[int, Field(ge=1, le=1000, description="Attention heads of the first layer (8)")]
    output_heads: Annotated[int, Field(ge=1, le=1000, description="Heads of the second layer, averaged")] = 1
    activation: Literal["elu"]  # type: ignore[assignment]
    dropout: Annotated[
        float, Field(ge=0, lt=1, description="Of both layers' inputs and of attention weights, in training")
    ] = 0.0
    inference_own_weight: Annotated[float, Field(ge=0, le=0)] = 0.0


class VelickovicTraining(RootBatches):
    weight_decay: Annotated[float, Field(ge=0, description="L2 penalty of all parameters")] = 0.0
    patience: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None,
        description="Epochs in which neither loss nor accuracy on validation nodes is as good as its best before "
        "stopping; the last parameters as good in both are kept",
    )


class VelickovicCell(NetworkCell):
    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        **NetworkCell.NOISE_IGNORES,
        "model": (*NetworkCell.NOISE_IGNORES["model"], "output_heads"),
    }
    model: VelickovicModel
    training: VelickovicTraining
    privacy: None = None


def seconds(cell: Any, size: Size) -> float:
    """Of products with weights, and of messages on all edges."""
    width = cell.model.width * cell.model.heads
    wide = cell.model_copy(update={"model": cell.model.model_copy(update={"width": width})})
    share = 1.0 if cell.training.patience is None else EARLY_STOP
    messages = share * cell.training.steps * SECONDS_PER_ENTRY * (size.entries + size.nodes) * width / 64
    return network_seconds(wide, size) + float(messages)


def look(cell: Any) -> Look:
    return Look(BROWN, "^", (0, (3, 1)))


MODEL = {"architecture": "velickovic", "hops": 2, "activation": "elu", "width": 4, "heads": 2, "dropout": 0.5}
SPECS = (
    MethodSpec(
        "velickovic-gat",
        "The two-layer GAT of Velickovic et al. without privacy, on the whole graph.",
        "dpgraph.methods.attention.train:Gat",
        VelickovicCell,
        {
            "none": {"model": MODEL, "training": {"sampling_rate": 0.3}},
            "stopping": {
                "model": {**MODEL, "output_heads": 3},
                "training": {"weight_decay": 0.01, "patience": 1, "sampling_rate": 1.0},
            },
        },
        look=look,
        seconds=seconds,
    ),
)
