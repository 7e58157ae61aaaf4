"""Specifications of GAP, ProGAP (Sajadmanesh et al., 2023 and 2024), DPDGC (Chien et al., 2023) and edge votes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, MlpModel, NetworkCell, Privacy, RootBatches, UndroppedMlp
from dpgraph.engine.methods import spec
from dpgraph.engine.methods.cost import loop_seconds, network_seconds
from dpgraph.engine.methods.looks import BLUE, BROWN, DASH_DOT, DASHED, OLIVE, SLATE, Dashes, Look
from dpgraph.engine.methods.spec import AttackCase, MethodSpec, Variant
from dpgraph.families import own_graphs
from dpgraph.families.aggregates import mechanism as mechanisms
from dpgraph.families.aggregates.embedding_mechanism import (
    EmbeddedAggregates,
    embedded_aggregates,
    printed_embedded_aggregates,
)
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size


class AggregatesModel(UndroppedMlp):
    """Networks of GAP and ProGAP."""

    encoder_layers: Annotated[int, Field(ge=1, le=1000, description="Layers of GAP's encoder; ProGAP has none")] = 1
    aggregations: Annotated[
        int, Field(ge=1, le=100, description="K, noisy sums over neighbours, one after the other")
    ] = 2


class AggregatesPrivacy(Privacy):
    """Budget of GAP and ProGAP."""

    variant: Literal["rigorous", "node-remove", "published", "edge"] = "rigorous"
    """rigorous (node-null: a node sends to D of its list), node-remove (a node with all its edges; needs a public bound
    on degrees), published (as rigorous, under the papers' accountant and their relation, which is not proved), edge
    (features and labels are not protected; noise_multiplier is the noise std of the sums)"""
    receivers: Annotated[int, Field(ge=1, le=LARGE)] = 100
    """D: nodes that a node sends to (variants rigorous and published)"""
    degree_bound: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """D: no list is longer, by a public schema and not by looking (variant node-remove)"""
    sums_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the squared mu for the sums; null: their noise std is sqrt(D) times that of a step, as in the papers
    (node level)"""

    @model_validator(mode="after")
    def _read(self) -> Self:
        bounded = self.variant == "node-remove"
        if (self.degree_bound is not None) != bounded:
            expected = "a number" if bounded else "null"
            raise ValueError(f"degree_bound={self.degree_bound}: expected {expected} for variant {self.variant}")
        if self.variant == "edge" and self.sums_share is not None:
            raise ValueError(f"sums_share={self.sums_share}: expected null for variant {self.variant}")
        return self


class AggregatesCell(NetworkCell):
    """A cell of GAP or ProGAP."""

    model: AggregatesModel
    training: RootBatches
    privacy: AggregatesPrivacy


class DgcModel(UndroppedMlp):
    """Networks of DPDGC."""

    encoder_layers: Annotated[int, Field(ge=1, le=1000, description="Layers of the MLP of own records")] = 1


class DgcPrivacy(Privacy):
    """Budget of DPDGC."""

    variant: Literal["rigorous", "published"] = "rigorous"
    """rigorous (node-null: a node's vector is added to D of its list, and D + 1 roots of a step of the vectors change),
    published (noise and accountant of the released code, whose relation is not proved)"""
    receivers: Annotated[int, Field(ge=1, le=LARGE, description="D: nodes that a node's vector is added to")] = 100
    sums_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the squared mu for the released sum; null: by noise stds as in the code"""
    embedding_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the squared mu for the steps of nodes' vectors; null if sums_share is"""

    @model_validator(mode="after")
    def _shares(self) -> Self:
        both = (self.sums_share, self.embedding_share)
        if (both[0] is None) != (both[1] is None):
            expected = "null" if both[0] is None else "a number"
            raise ValueError(f"embedding_share={both[1]}: expected {expected} with sums_share={both[0]}")
        if both[0] is not None and both[1] is not None and both[0] + both[1] >= 1:
            raise ValueError(f"embedding_share={both[1]}: expected less than 1 - sums_share = {1 - both[0]:g}")
        return self


class DpDgcCell(NetworkCell):
    """A cell of DPDGC."""

    model: DgcModel
    training: RootBatches
    privacy: DgcPrivacy


class EdgeVotesModel(MlpModel):
    """Networks of edge votes: those of records, and the reader of their scores and of a noisy sum."""

    folds: Annotated[int, Field(ge=2, le=100, description="Networks of records, each trained without one part")] = 5


class EdgeVotesPrivacy(Privacy):
    """Budget of edge votes."""

    variant: Literal["rigorous"] = "rigorous"
    """rigorous (features and labels are not protected; noise_multiplier is the noise std of the sum)"""


class EdgeVotesCell(NetworkCell):
    """A cell of edge votes."""

    model: EdgeVotesModel
    training: spec.StoppedTraining
    privacy: EdgeVotesPrivacy


LINES: dict[str, Dashes] = {"node-remove": "-", "rigorous": "-", "published": DASHED, "edge": DASH_DOT}


def look(colour: str, marker: str) -> Callable[[Any], Look]:
    """Return the look of a method, dashed by variant."""
    return lambda cell: Look(colour, marker, LINES[cell.privacy.variant])


def edge_votes_seconds(cell: Any, size: Size) -> float:
    """Return the predicted seconds of a run: sparse products with all records, and sums over all entries."""
    sums = 100 * size.entries * size.classes / 1e9
    return network_seconds(cell, size) + float(sums)


def dgc_seconds(cell: Any, size: Size) -> float:
    """Return the predicted seconds of a run of DPDGC.

    Perceptron steps on single records; in the other steps, sums over all entries and noise on all vectors.
    """
    model, training = cell.model, cell.training
    parameters = (size.features + 2 * model.width + size.classes) * model.width
    steps = 0 if training.steps == "max" else training.steps
    learnt = steps / 2 * (100 * size.entries + 50 * size.nodes) * model.width
    step = training.roots_per_step(size.train_nodes) * 6 * parameters
    return loop_seconds(training, step, 2 * size.nodes * parameters) + learnt / 1e9


def seconds(cell: Any, size: Size) -> float:
    """Return the predicted seconds of a run: perceptrons on single records, and K sums over all entries."""
    model, training = cell.model, cell.training
    first = (model.aggregations * model.width + size.features) * model.width
    rest = (model.aggregations + 1) * model.width * size.classes
    step = training.roots_per_step(size.train_nodes) * 6 * (first + rest)
    sums = 100 * model.aggregations * size.entries * model.width
    return loop_seconds(training, step, 2 * size.nodes * (first + rest)) + sums / 1e9


SENT = spec.OWN_RECORD | {spec.ReadBy.RELEASED}


def scored_on_sums(cell: Any) -> spec.ScoreReads:
    """Return what a score reads: a record and its noisy sums, to which validation nodes send as all others do."""
    return spec.ScoreReads(SENT, spec.Public.NO, protected="who send to others and are protected")


def scored_on_sums_of_edges(cell: Any) -> spec.ScoreReads:
    """Return the same for the variant that protects edges alone."""
    return spec.ScoreReads(SENT, spec.Public.BY_RELATION)


VARIANTS = {
    "rigorous": Variant(mechanisms.CappedAggregates, mechanisms.capped_aggregates, scored_on_sums),
    "node-remove": Variant(mechanisms.BoundedAggregates, mechanisms.bounded_aggregates, scored_on_sums),
    "published": Variant(mechanisms.CappedAggregates, mechanisms.capped_aggregates, scored_on_sums, target="published"),
    "edge": Variant(mechanisms.EdgeAggregates, mechanisms.edge_aggregates, scored_on_sums_of_edges),
}


node_level = partial(AttackCase, reads="records", sums=True, batches=Batches.POISSON, clipping=Clipped.ROOT)
EDGE_ATTACK = AttackCase(
    variant="edge", reads="sums", sums=True, batches=Batches.NONE, clipping=Clipped.NOTHING, relation=Relation.EDGE
)
ATTACKS = (
    node_level(variant="rigorous", relation=Relation.NODE_NULL),
    node_level(variant="node-remove", relation=Relation.NODE_REMOVE),
    node_level(variant="published", relation=Relation.NODE_NULL),
    EDGE_ATTACK,
)
SMALL: dict[str, Any] = {"architecture": "mlp", "hops": 0, "width": 8}
BUDGETS: dict[str, dict[str, Any]] = {
    "rigorous": {"receivers": 3, "sums_share": 0.4},
    "node-remove": {"degree_bound": 50},
    "published": {"receivers": 3},
    "edge": {},
}


def contract(budgets: dict[str, dict[str, Any]], model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the cells that the tests put through the contract of methods."""
    shared = {"model": model, "training": {"sampling_rate": 0.5}}
    return {
        variant: {**shared, "privacy": {"variant": variant, "epsilon": 6.0, **budget}}
        for variant, budget in budgets.items()
    }


CONTRACT = contract(BUDGETS, SMALL | {"aggregations": 1})
CONTRACT["rigorous"] = CONTRACT["rigorous"] | {"model": SMALL | {"aggregations": 2}}
OWN_GRAPHS = {
    own_graphs.RULE: own_graphs.perceptron,
    own_graphs.RULE_OF_REMOVED: own_graphs.aggregation_of_removed,
    own_graphs.RULE_OF_EDGES: own_graphs.aggregation_of_edges,
}

DGC_BUDGETS: dict[str, dict[str, Any]] = {
    "rigorous": {"receivers": 3, "sums_share": 0.4, "embedding_share": 0.3},
    "published": {"receivers": 3},
}

STAGES = spec.uncaptured("the network changes from stage to stage, with noisy sums between them")
staged = partial(MethodSpec, why_not_captured=STAGES, inference=spec.own_record)
on_node_sums = partial(
    staged, cell=AggregatesCell, contract=CONTRACT, variants=VARIANTS, attacks=ATTACKS, rules=OWN_GRAPHS,
    seconds=seconds,
)  # fmt: skip

SPECS = (
    on_node_sums(
        "dp-gap",
        "GAP: an encoder of own records, noisy sums of its states over neighbours, and a classifier of both.",
        "dpgraph.families.aggregates.train:Gap",
        look=look(OLIVE, "s"),
    ),
    on_node_sums(
        "dp-progap",
        "ProGAP: stages that read one more noisy sum each, of the states of the stage before it.",
        "dpgraph.families.aggregates.train:ProGap",
        look=look(BROWN, "^"),
    ),
    staged(
        "dp-edge-votes",
        "Edge votes: networks of records, a noisy sum of their votes over neighbours, and a reader of both.",
        "dpgraph.families.aggregates.edge_votes:EdgeVotes",
        EdgeVotesCell,
        {
            "rigorous": {
                "model": SMALL | {"folds": 2, "dropout": 0.5},
                "training": {"sampling_rate": 1.0, "patience": 2},
                "privacy": {"epsilon": 6.0},
            }
        },
        {"rigorous": Variant(mechanisms.EdgeVotesSum, mechanisms.edge_votes, scored_on_sums_of_edges)},
        (replace(EDGE_ATTACK, variant="rigorous"),),
        look=look(BLUE, "o"),
        rules={own_graphs.RULE_OF_EDGES: own_graphs.votes_of_edges},
        seconds=edge_votes_seconds,
    ),
    staged(
        "dp-dgc",
        "DPDGC: vectors of nodes, learnt where they are summed, one noisy sum, and a classifier of it and own records.",
        "dpgraph.families.aggregates.train:Dgc",
        DpDgcCell,
        contract(DGC_BUDGETS, SMALL),
        {
            "rigorous": Variant(EmbeddedAggregates, embedded_aggregates, scored_on_sums),
            "published": Variant(EmbeddedAggregates, printed_embedded_aggregates, scored_on_sums, target="published"),
        },
        tuple(node_level(variant=variant, reads="lists", relation=Relation.NODE_NULL) for variant in DGC_BUDGETS),
        look=look(SLATE, "D"),
        rules={own_graphs.RULE: own_graphs.perceptron},
        seconds=dgc_seconds,
    ),
)
