"""Specifications of GNNs and MLPs on ego trees, without privacy and as DP-GNN and DP-MLP (Daigavane et al.)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, MlpModel, Model, NetworkCell, RecordBatches, RootBatches, TreePrivacy
from dpgraph.engine.methods import looks, spec
from dpgraph.engine.methods.looks import Look
from dpgraph.engine.methods.spec import AttackCase, MethodSpec, Variant, scored_along_edges
from dpgraph.families.own_graphs import RULE, RULE_OF_REMOVED, convolution, perceptron, perceptron_of_removed
from dpgraph.families.trees import mechanism as mechanisms
from dpgraph.families.trees.published import FixedBatchTrees, PrintedRecords, printed_records, published_trees
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation


class TreeModel(Model):
    """Networks on ego trees."""

    architecture: Literal["mlp", "gcn", "gin", "gat"] = "gcn"


class PlainTreeModel(TreeModel):
    """Networks on ego trees without privacy, which may have dropout."""

    DROPPED: ClassVar[tuple[str, ...]] = ("mlp", "gcn", "gin", "gat")


class PlainTreeTraining(spec.StoppedTraining):
    """Training without privacy, which may stop early."""

    max_degree: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """K: lists are sampled by Algorithm 1, as in the paper; null: whole lists"""


class PlainGnn(NetworkCell):
    """A cell of method gnn."""

    model: PlainTreeModel
    training: PlainTreeTraining
    privacy: None = None


class PlainMlp(NetworkCell):
    """A cell of method mlp."""

    model: MlpModel
    training: PlainTreeTraining
    privacy: None = None


class DpTreePrivacy(TreePrivacy):
    """Budget of DP-GNN."""

    variant: Literal["rigorous", "rigorous-fixed-size", "published"] = "rigorous"
    """rigorous (stable sampler, Poisson batches, public joint clip norm, double-mixture accountant),
    rigorous-fixed-size (the same with batches of fixed size and Theorem 1 at the number of roots that do change;
    noise_multiplier is noise std / 2 C R), published (Algorithm 1, fixed-size batches, per-group percentile
    clipping, Theorem 1; noise_multiplier is std / 2 C N(K, r))"""


class DpGnnCell(NetworkCell):
    """A cell of DP-GNN."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        **NetworkCell.NOISE_IGNORES,
        "privacy": ("clip_norm", "clip_percentile"),
    }
    model: TreeModel
    training: RootBatches
    privacy: DpTreePrivacy


MlpVariant = Literal["rigorous", "node-remove", "rigorous-fixed-size", "published", "published-text"]


class DpMlpPrivacy(DpTreePrivacy):
    """Budget of DP-MLP."""

    variant: MlpVariant = Field(  # type: ignore[assignment]
        default="rigorous",
        description="As for dp-gnn; node-remove: as rigorous, stated for a node that leaves with its edges, which "
        "no step reads; published: noise std / C and the accountant of the released code; published-text: "
        "noise std / 2 C and Theorem 1, as the paper's text has it with N(K, 0) = 1",
    )


class DpMlp(DpGnnCell):
    """A cell of DP-MLP."""

    model: MlpModel  # type: ignore[assignment]
    training: RecordBatches
    privacy: DpMlpPrivacy

    @model_validator(mode="after")
    def _engine(self) -> Self:
        self.training.check_engine(self.privacy.variant, ("rigorous", "node-remove"))
        return self


VARIANTS = {
    "rigorous": Variant(mechanisms.PoissonTrees, mechanisms.poisson_trees, scored_along_edges),
    "rigorous-fixed-size": Variant(mechanisms.FixedSizeStableTrees, mechanisms.fixed_size_trees, scored_along_edges),
    "published": Variant(FixedBatchTrees, published_trees, scored_along_edges, target="published"),
}
MLP_VARIANTS = {
    **VARIANTS,
    "node-remove": Variant(mechanisms.RemovedRecords, mechanisms.removed_records, scored_along_edges),
    "published-text": Variant(PrintedRecords, printed_records, scored_along_edges, target="published"),
}
PLAIN, PRIVATE = "dpgraph.families.trees.plain:Gnn", "dpgraph.families.trees.train:DpGnn"
RECORDS = ("node-classification", "images")
PLAIN_SUMMARY = "GNN (or MLP) trained without privacy on whole neighbourhoods, minibatches of fixed size."
PRIVATE_SUMMARY = "DP-SGD or DP-Adam on ego trees, node-level privacy; the cell's variant states which mechanism."


def contract(private: bool, hops: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Return the cells that the tests put through the contract of methods.

    The first variant comes with all architectures.
    """
    cells: dict[str, dict[str, Any]] = {}
    for hop in hops:
        variants = tuple(VARIANTS if hop else MLP_VARIANTS) if private else (None,)
        for variant in variants:
            for architecture in ("gcn", "gin", "gat") if hop and variant == variants[0] else ("gcn",):
                suffix = "" if architecture == "gcn" else f"-{architecture}"
                name = f"{hop}-{variant or 'none'}{suffix}"
                cells[name] = {
                    "model": {"architecture": architecture if hop else "mlp", "hops": hop, "width": 8, "heads": 3},
                    "training": {"sampling_rate": 0.3},
                }
                if variant is not None:
                    cells[name]["privacy"] = {"variant": variant, "epsilon": 6.0, "max_degree": 3, "list_cap": 3}
    if not private:  # a baseline that stops before the last step
        for hop in hops:
            plain: dict[str, Any] = cells[f"{hop}-none"]
            stopping = {"weight_decay": 0.01, "patience": 1, "stop_on": "accuracy", "sampling_rate": 1.0}
            cells[f"{hop}-stopping"] = {"model": {**plain["model"], "dropout": 0.5}, "training": stopping}
    if private and 0 in hops:  # softmax regression: a parameter group less
        mlp: dict[str, Any] = cells["0-published"]
        cells["0-published-softmax"] = {**mlp, "model": {**mlp["model"], "encoder_layers": 0}}
        proved: dict[str, Any] = cells["0-rigorous"]
        cells["0-opacus"] = {**proved, "training": {**proved["training"], "engine": "opacus"}}
    return cells


def attacks(hops: int) -> tuple[AttackCase, ...]:
    """Return how audits attack each variant."""
    proved = AttackCase(
        reads="trees", hops=hops, batches=Batches.POISSON, clipping=Clipped.ROOT, relation=Relation.NODE_NULL
    )
    published = replace(
        proved, variant="published", batches=Batches.FIXED_SIZE, clipping=Clipped.ROOT_GROUPS,
        noise_unit="2 C N(K, r)" if hops else "C", relation=Relation.NONE,
    )  # fmt: skip
    fixed_size = replace(proved, variant="rigorous-fixed-size", batches=Batches.FIXED_SIZE, noise_unit="2 C R")
    if hops:
        return (proved, fixed_size, published)
    removed = replace(proved, variant="node-remove", relation=Relation.NODE_REMOVE)
    text = replace(published, variant="published-text", noise_unit="2 C N(K, r)")
    attacked = replace(proved, canaries=spec.CanarySettings(noise=4 / 3))
    return (attacked, removed, fixed_size, published, text)


plain_look = looks.by_architecture(
    {
        ("gcn", 1): Look(looks.GREEN, "v", (0, (5, 1.5))),
        ("gcn", 2): Look(looks.SKY, "<", (0, (8, 2))),
        ("gin", 1): Look(looks.OLIVE, "v", (0, (5, 1, 1, 1))),
        ("gin", 2): Look(looks.OLIVE, "<", (0, (8, 1, 1, 1))),
        ("gat", 1): Look(looks.BROWN, "v", (0, (5, 1, 1, 1, 1, 1))),
        ("gat", 2): Look(looks.BROWN, "<", (0, (8, 1, 1, 1, 1, 1))),
        ("mlp", 0): Look(looks.ORANGE, ">", (0, (1, 1.5))),
    }
)
private_look = looks.by_architecture(
    {
        ("gcn", 1): Look(looks.BLUE, "o", "-"),
        ("gcn", 2): Look(looks.PURPLE, "s", "-"),
        ("gin", 1): Look(looks.TEAL, "o", (0, (12, 1))),
        ("gin", 2): Look(looks.TEAL, "s", (0, (12, 1))),
        ("gat", 1): Look(looks.WINE, "o", (0, (9, 1, 3, 1))),
        ("gat", 2): Look(looks.WINE, "s", (0, (9, 1, 3, 1))),
        ("mlp", 0): Look(looks.VERMILION, "^", "-"),
    }
)

on_trees = partial(MethodSpec, why_not_captured=spec.captured)

SPECS = (
    on_trees(
        "gnn", PLAIN_SUMMARY, PLAIN, PlainGnn, contract(False, (1, 2)), look=plain_look, rules={RULE: convolution}
    ),
    on_trees(
        "mlp",
        PLAIN_SUMMARY,
        PLAIN,
        PlainMlp,
        contract(False, (0,)),
        look=plain_look,
        problems=RECORDS,
        rules={RULE: perceptron},
        untouched={Relation.EDGE: "an MLP that reads no edge"},
    ),
    on_trees(
        "dp-gnn",
        PRIVATE_SUMMARY,
        PRIVATE,
        DpGnnCell,
        contract(True, (1, 2)),
        VARIANTS,
        (*attacks(1), *attacks(2)),
        look=private_look,
    ),
    on_trees(
        "dp-mlp",
        PRIVATE_SUMMARY,
        PRIVATE,
        DpMlp,
        contract(True, (0,)),
        MLP_VARIANTS,
        attacks(0),
        look=private_look,
        rules={RULE: perceptron, RULE_OF_REMOVED: perceptron_of_removed},
    ),
)
