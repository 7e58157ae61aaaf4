"""DP-SGD and DP-Adam on one clipped gradient of a (sub)graph (Igamberdiev and Habernal, sections 4.2 to 4.4)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dpgraph.experiments.cell import LARGE, Model, NetworkCell, NodeParts, Privacy
from dpgraph.methods.attacks import AttackCase
from dpgraph.methods.spec import MethodSpec, Variant
from dpgraph.methods.subgraphs import look
from dpgraph.methods.subgraphs.mechanism import parts
from dpgraph.privacy.mechanisms.subgraphs import (
    CutSubgraphs,
    MaskedSubgraphs,
    PoissonSubgraphs,
    PureNoise,
    UnclippedSubgraphs,
)
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation


class KipfModel(Model):
    architecture: Literal["kipf"]
    hops: Literal[2]


class UndroppedModel(KipfModel):
    dropout: Annotated[float, Field(ge=0, le=0)] = 0.0


class PlainPartTraining(NodeParts):
    weight_decay: Annotated[float, Field(ge=0, description="L2 penalty")] = 0.0
    patience: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None, description="Epochs without a better validation loss before stopping"
    )


class KipfGcnCell(NetworkCell):
    model: KipfModel
    training: PlainPartTraining
    privacy: None = None


class SubgraphPrivacy(Privacy):
    variant: Literal["rigorous", "cut", "published", "released"] = Field(
        default="rigorous",
        description="rigorous (a fresh Poisson sample of nodes at each step), cut (fixed parts without the edges "
        "between them), published (fixed parts of the loss over the whole graph, moments accountant), released (the "
        "same without clipping, which is what the released code does)",
    )


class DpSubgraphCell(NetworkCell):
    model: KipfModel
    training: NodeParts
    privacy: SubgraphPrivacy


class NoisePrivacy(Privacy):
    variant: Literal["published"]


class DpPureNoiseCell(NetworkCell):
    model: UndroppedModel
    training: NodeParts
    privacy: NoisePrivacy


VARIANTS = {
    "rigorous": Variant(PoissonSubgraphs, parts(PoissonSubgraphs)),
    "cut": Variant(CutSubgraphs, parts(CutSubgraphs)),
    "published": Variant(MaskedSubgraphs, parts(MaskedSubgraphs), target="published"),
    "released": Variant(UnclippedSubgraphs, parts(UnclippedSubgraphs), target="published"),
}


def contract(variants: tuple[str | None, ...], dropout: float) -> dict[str, dict[str, Any]]:
    """Cells that the tests put through the contract of methods."""
    return {
        f"{parts}-{variant or 'none'}": {
            "model": {"architecture": "kipf", "hops": 2, "width": 8, "dropout": dropout},
            "training": {"num_splits": parts, "train_share": 0.5},
            **({} if variant is None else {"privacy": {"variant": variant, "epsilon": 6.0}}),
        }
        for variant in variants
        for parts in (1, 3)
    }


def attack(variant: str, batches: Batches, clipping: Clipped, relation: Relation) -> AttackCase:
    return AttackCase(
        variant=variant,
        reads="parts",
        hops=2,
        batches=batches,
        clipping=clipping,
        relation=relation,
        run_attack="subgraphs" if clipping is Clipped.STEP else None,
    )


ATTACKS = (
    attack("rigorous", Batches.POISSON, Clipped.STEP, Relation.NODE_REMOVE),
    attack("cut", Batches.PARTS_BY_ID, Clipped.STEP, Relation.NODE_REMOVE),
    attack("published", Batches.MASKED_PARTS, Clipped.STEP, Relation.GRAPH),
    attack("released", Batches.MASKED_PARTS, Clipped.NOTHING, Relation.NONE),
)

SPECS = (
    MethodSpec(
        "kipf-gcn",
        "Kipf and Welling's two-layer GCN without privacy, on the whole graph or on parts of its loss.",
        "dpgraph.methods.subgraphs.plain:KipfGcn",
        KipfGcnCell,
        contract((None,), 0.5),
        look=look.plain,
    ),
    MethodSpec(
        "dp-subgraph",
        "DP-SGD or DP-Adam on one clipped gradient of a subgraph a step; the variant states which subgraph.",
        "dpgraph.methods.subgraphs.train:DpSubgraph",
        DpSubgraphCell,
        contract(tuple(VARIANTS), 0.5),
        VARIANTS,
        ATTACKS,
        look=look.private,
    ),
    MethodSpec(
        "dp-pure-noise",
        "A control: the updates of dp-subgraph with the gradient set to zero, so that nothing but noise is learnt.",
        "dpgraph.methods.subgraphs.train:DpPureNoise",
        DpPureNoiseCell,
        contract(("published",), 0.0),
        {"published": Variant(PureNoise, parts(PureNoise), target="published")},
        (attack("published", Batches.NONE, Clipped.NOTHING, Relation.GRAPH),),
        look=look.noise,
    ),
)
