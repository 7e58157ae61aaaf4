"""DP-SGD and DP-Adam on clipped gradients of (sub)graphs (Igamberdiev and Habernal, sections 4.2 to 4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, Model, NetworkCell, NodeParts, Privacy
from dpgraph.engine.methods import looks
from dpgraph.engine.methods.cost import FLOPS_PER_SECOND, SECONDS_TO_START, network_seconds, steps_of
from dpgraph.engine.methods.looks import Look
from dpgraph.engine.methods.spec import AttackCase, MethodSpec, Public, ScoreReads, Variant, scored_along_edges
from dpgraph.families.subgraphs import mechanism as mechanisms
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size

LOOKS = {
    (None, "adam"): Look(looks.GREEN, "v", (0, (5, 1.5))),
    (None, "sgd"): Look(looks.OLIVE, "^", (0, (5, 1, 1, 1))),
    ("published", "adam"): Look(looks.BLUE, "o", (0, (7, 2))),
    ("published", "sgd"): Look(looks.VERMILION, "s", (0, (2.5, 1.2))),
    ("released", "adam"): Look(looks.BROWN, "X", (0, (7, 2, 1, 2))),
    ("released", "sgd"): Look(looks.ORANGE, "P", (0, (2.5, 1.2, 1, 1.2))),
    ("per-node", "adam"): Look(looks.SKY, "<", (0, (5, 1, 1, 1, 1, 1))),
    ("per-node", "sgd"): Look(looks.BLACK, ">", (0, (5, 1, 1, 1, 1, 1))),
    ("cut", "adam"): Look(looks.SLATE, "v", (0, (7, 1.5, 1, 1.5))),
    ("cut", "sgd"): Look(looks.PURPLE, "^", (0, (3, 1, 1, 1, 1, 1))),
    ("rigorous", "adam"): Look(looks.TEAL, "D", "-"),
    ("rigorous", "sgd"): Look(looks.WINE, "h", "-"),
}


def look(cell: Any) -> Look:
    return LOOKS.get((cell.privacy and cell.privacy.variant, cell.training.optimizer), looks.ANY)


def noise_look(cell: Any) -> Look:
    return Look("#8A8A8A", "p" if cell.training.optimizer == "sgd" else "d", (0, (3, 2)), neutral=True)


class KipfModel(Model):
    """Kipf and Welling's two-layer GCN."""

    architecture: Literal["kipf"]
    hops: Literal[2]


class UndroppedModel(KipfModel):
    """The same network without dropout, which the control has no use for."""

    dropout: Annotated[float, Field(ge=0, le=0)] = 0.0


class StoppedParts(NodeParts):
    """Training on parts, with early stopping on validation nodes where `patience` is set."""

    patience: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """Epochs without a better validation loss before stopping; the last parameters count"""


class PlainPartTraining(StoppedParts):
    """Training on parts without privacy."""

    weight_decay: Annotated[float, Field(ge=0, description="L2 penalty")] = 0.0


class KipfGcnCell(NetworkCell):
    """The settings of the GCN without privacy."""

    model: KipfModel
    training: PlainPartTraining
    privacy: None = None


class SubgraphPrivacy(Privacy):
    """The budget of training on subgraphs, and what a step reads and clips."""

    variant: Literal["rigorous", "cut", "published", "per-node", "released"] = "rigorous"
    """rigorous (a fresh Poisson sample of nodes at each step), cut (fixed parts without the edges between them),
    published (fixed parts of the loss over the whole graph, one clipped gradient a step, moments accountant),
    per-node (the same parts, the gradient of each node's loss clipped, their noisy sum divided by L: Eq. 5 with a
    node for x_i), released (no clipping, which is what the released code does)"""


class DpSubgraphCell(NetworkCell):
    """The settings of private training on subgraphs."""

    model: KipfModel
    training: StoppedParts
    privacy: SubgraphPrivacy

    @model_validator(mode="after")
    def _stops(self) -> Self:
        patience, variant = self.training.patience, self.privacy.variant
        if patience is not None and not VARIANTS[variant].mechanism.may_stop:  # type: ignore[attr-defined]
            raise ValueError(f"patience={patience}: expected null for variant {variant}: {mechanisms.UNPAID_STOPPING}")
        return self


class NoisePrivacy(Privacy):
    """The budget of the control, whose noise and divisor are those of a variant of dp-subgraph."""

    variant: Literal["published", "per-node"] = Field(description="Of dp-subgraph, whose noise and divisor it has")


class DpPureNoiseCell(NetworkCell):
    """The settings of the control."""

    model: UndroppedModel
    training: NodeParts
    privacy: NoisePrivacy


def scored_in_any_graph(cell: Any) -> ScoreReads:
    """Return the raw graph, all of which a relation between any two graphs changes."""
    return replace(scored_along_edges(cell), public=Public.NO, protected="whom the relation replaces with all others")


def proved(kind: type[mechanisms.GraphSplits]) -> Variant:
    """Return a variant whose relation is between graphs that differ in one node."""
    return Variant(kind, mechanisms.parts(kind), scored_along_edges)


def printed(kind: type[mechanisms.GraphSplits]) -> Variant:
    """Return a variant of the paper, whose relation is between any two graphs."""
    return Variant(kind, mechanisms.parts(kind), scored_in_any_graph, target="published")


VARIANTS = {
    "rigorous": proved(mechanisms.PoissonSubgraphs),
    "cut": proved(mechanisms.CutSubgraphs),
    "published": printed(mechanisms.MaskedSubgraphs),
    "per-node": printed(mechanisms.NodeClippedSubgraphs),
    "released": printed(mechanisms.UnclippedSubgraphs),
}
NOISE_VARIANTS = {"published": printed(mechanisms.PureNoise), "per-node": printed(mechanisms.NodeNoise)}


GATHERED = 3  # first layers stay sparse whatever the share of zeros
SECONDS_PER_PARAMETER = 2e-8  # and step: noise and update


def seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed: products with sparse records, and updates of all parameters."""
    induced = cell.privacy is not None and cell.privacy.variant in ("rigorous", "cut")
    return network_seconds(cell, size, GATHERED, lists=not induced) + _updates(cell, size)


def noise_seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed whose steps read no record."""
    looks = cell.training.evaluations * size.nodes * 2 * _parameters(cell, size) / FLOPS_PER_SECOND
    return SECONDS_TO_START + looks + _updates(cell, size)


def _updates(cell: Any, size: Size) -> float:
    return float(steps_of(cell.training) * SECONDS_PER_PARAMETER * _parameters(cell, size))


def _parameters(cell: Any, size: Size) -> int:
    return int((size.features + size.classes) * cell.model.width)


def contract(variants: tuple[str | None, ...], dropout: float) -> dict[str, dict[str, Any]]:
    """Return the cells that tests put through the contract of methods; one may stop early, but is too short to."""
    cells: dict[str, dict[str, Any]] = {
        f"{parts}-{variant or 'none'}": {
            "model": {"architecture": "kipf", "hops": 2, "width": 8, "dropout": dropout},
            "training": {"num_splits": parts, "train_share": 0.5},
            **({} if variant is None else {"privacy": {"variant": variant, "epsilon": 6.0}}),
        }
        for variant in variants
        for parts in (1, 3)
    }
    if "released" in variants:
        released = cells["1-released"]
        cells["1-released-stopping"] = {**released, "training": {**released["training"], "patience": 6}}
    return cells


def attack(variant: str, batches: Batches, clipping: Clipped, relation: Relation) -> AttackCase:
    return AttackCase(variant=variant, reads="parts", hops=2, batches=batches, clipping=clipping, relation=relation)


ATTACKS = (
    attack("rigorous", Batches.POISSON, Clipped.STEP, Relation.NODE_REMOVE),
    attack("cut", Batches.PARTS_BY_ID, Clipped.STEP, Relation.NODE_REMOVE),
    attack("published", Batches.MASKED_PARTS, Clipped.STEP, Relation.GRAPH),
    attack("per-node", Batches.MASKED_PARTS, Clipped.ROOT, Relation.GRAPH),
    attack("released", Batches.MASKED_PARTS, Clipped.NOTHING, Relation.NONE),
)


def why_not_captured(cell: Any) -> str:
    """Return why the steps of a cell are not captured; empty for fixed parts, each with a program of its own."""
    fresh = cell.privacy is not None and cell.privacy.variant == "rigorous"
    return "each step reads a part of its own" if fresh else ""


SPECS = (
    MethodSpec(
        "kipf-gcn",
        "Kipf and Welling's two-layer GCN without privacy, on the whole graph or on parts of its loss.",
        "dpgraph.families.subgraphs.train:KipfGcn",
        KipfGcnCell,
        contract((None,), 0.5),
        look=look,
        why_not_captured=why_not_captured,
        seconds=seconds,
    ),
    MethodSpec(
        "dp-subgraph",
        "DP-SGD or DP-Adam on subgraphs; the variant states which subgraph a step reads and what is clipped.",
        "dpgraph.families.subgraphs.train:DpSubgraph",
        DpSubgraphCell,
        contract(tuple(VARIANTS), 0.5),
        VARIANTS,
        ATTACKS,
        look=look,
        why_not_captured=why_not_captured,
        seconds=seconds,
    ),
    MethodSpec(
        "dp-pure-noise",
        "A control: the updates of dp-subgraph with the gradient set to zero, so that a run learns noise alone.",
        "dpgraph.families.subgraphs.train:DpPureNoise",
        DpPureNoiseCell,
        contract(tuple(NOISE_VARIANTS), 0.0),
        NOISE_VARIANTS,
        tuple(attack(variant, Batches.NONE, Clipped.NOTHING, Relation.GRAPH) for variant in NOISE_VARIANTS),
        look=noise_look,
        why_not_captured=why_not_captured,
        seconds=noise_seconds,
    ),
)
