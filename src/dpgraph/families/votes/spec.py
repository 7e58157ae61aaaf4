"""Specification of DP-Votes (ours, docs/privacy/votes.md, Theorem 11): training on own records, then votes of
neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, NetworkCell, Privacy, RootBatches, UndroppedMlp
from dpgraph.engine.methods import spec
from dpgraph.engine.methods.looks import DASH_DOT, PURPLE, SLATE, TEAL, WINE, Look
from dpgraph.engine.methods.spec import AttackCase, MethodSpec, ScoreReads, Variant
from dpgraph.families.votes import removed_mechanism as removed
from dpgraph.families.votes import rules
from dpgraph.families.votes.mechanism import PoissonVotes, poisson_votes
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import PredictionInput, Relation

STRANGERS = "-strangers"  # how the names of variants end of which nodes read two hops
Name = Literal["rigorous", "node-remove-capped", "node-remove-strangers", "node-remove-capped-strangers"]


class VotesTraining(RootBatches):
    """Batches of roots, and the share of steps whose parameters are averaged."""

    averaged_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the steps, the last ones, whose parameters are averaged; 0: the last alone"""


class VotesPrivacy(Privacy):
    """Budget and settings of DP-Votes."""

    variant: Name = "rigorous"
    """rigorous (node-null; a node reads the buckets of its list), node-remove-capped (a node with all its edges, one
    way: training nodes vote, others receive and read their own bucket alone; noisy degrees give caps),
    node-remove-capped-strangers (the same, but a node reads the buckets of its list, too, which covers all but the
    protected one and its neighbours), node-remove-strangers (for the same, all nodes vote, under a public bound on
    degrees)"""
    votes_share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the squared mu of all Gaussian parts for votes; 0: own records alone"""
    mean_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same for the mean of the rows, which keeps features and centres rows; 0: it is not released"""
    signed_rows: bool = False
    """Features may be negative: the mean keeps all, and rows lose its direction only beyond its noise"""
    vote_mass: Annotated[float, Field(gt=0, le=1000)] = 0.3
    """a: what a vote adds to the coordinate that counts voters"""
    degree_floor: Annotated[int, Field(ge=1, le=LARGE)] = 8
    """m: votes weigh 1 / sqrt(max(d + 1, m)), which makes the epsilon of an edge small"""
    choice_epsilon: Annotated[float, Field(gt=0)] | None = None
    """Part of epsilon for choosing, on training and validation nodes, how buckets are read; null: as shrinkage and
    strength say"""
    shrinkage: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """kappa: buckets of mass m count m / (m^2 + (kappa noise std)^2), without a choice"""
    strength: Annotated[float, Field(ge=0, le=1000)] = 2.0
    """beta: weight of the reading next to the own prediction, without a choice; with node-remove-capped in units of the
    noise, so that shrinkage has no part"""

    reader_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """As votes_share, for learning from labels of training nodes how buckets are read, from the public or chosen reader
    on; 0: none is learnt (variant rigorous)"""
    reader_steps: Annotated[int, Field(ge=1, le=1000)] = 20
    """Steps in which a reader is learnt, full batches, each gradient clipped to norm 1"""
    reader_rate: Annotated[float, Field(gt=0, le=1000)] = 3.0
    """Learning rate of the reader's steps"""
    one_hop: bool = False
    """A node reads its own bucket alone, with all of beta, not those of its list (variant rigorous; the others always
    do)"""
    label_votes: bool = True
    """Training nodes vote for their labels; false: all nodes vote as they predict"""
    rounds: Annotated[int, Field(ge=1, le=100)] = 1
    """Releases of buckets, which share votes_share alike; from the second on nodes vote as they predict from the one
    before, read as shrinkage and strength say (variant rigorous)"""

    raw_inference: bool = False
    """A node's final scores are averaged with those of its list, whose records and edges no epsilon covers (variant
    rigorous, votes_share 0)"""

    degree_bound: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """D: no list is longer, by a public schema and not by looking (variant node-remove-strangers; of node-remove-capped
    optional: null: as many as there are other ids)"""
    taper: Annotated[float, Field(ge=0, le=1)] | None = None
    """kappa: 0: all votes weigh 1 / sqrt(D), 1: those of short lists up to twice as much (variant
    node-remove-strangers)"""

    degrees_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """As votes_share, for the noisy degrees, of what receivers pay: not part of the sum (variant node-remove-capped)"""
    cap_margin: Annotated[float, Field(ge=0, le=100)] | None = None
    """z: a cap is the noisy degree plus z standard deviations of its noise (variant node-remove-capped)"""
    hub_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """As votes_share, for finding hubs first; null: they are not looked for (same variant)"""
    hub_limit: Annotated[float, Field(ge=1, le=LARGE)] | None = None
    """H: receivers of a larger noisy number of voters are hubs, which receive no votes (same variant)"""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        wanted, caps = self.variant == "node-remove-strangers", self.variant.startswith("node-remove-capped")
        capped = caps and self.votes_share > 0  # without votes no cap is needed
        needs = {"degree_bound": wanted, "taper": wanted, "degrees_share": capped, "cap_margin": capped}
        for name, needed in needs.items():
            value = getattr(self, name)
            if (value is not None) != needed and not (name == "degree_bound" and caps):
                expected = "a number" if needed else "null"
                raise ValueError(f"{name}={value}: expected {expected} for variant {self.variant}")
        if (self.hub_share is None) != (self.hub_limit is None) or (self.hub_share is not None and not capped):
            raise ValueError(
                f"hub_share={self.hub_share}, hub_limit={self.hub_limit}: expected both or none, for node-remove-capped"
            )
        if self.variant != "rigorous" and (self.one_hop or self.rounds > 1):
            given = "one_hop=True" if self.one_hop else f"rounds={self.rounds}"
            raise ValueError(f"{given}: expected {'False' if self.one_hop else '1'} for variant {self.variant}")
        if self.reader_share and (self.variant != "rigorous" or self.one_hop or self.rounds > 1):
            raise ValueError(
                f"reader_share={self.reader_share}: expected 0 for variant {self.variant} with one_hop={self.one_hop}, "
                f"rounds={self.rounds}: a reader is learnt for the rigorous one, two hops and one round"
            )
        if self.raw_inference and (self.variant != "rigorous" or self.votes_share):
            raise ValueError(
                f"raw_inference=True: expected False for variant {self.variant} with votes_share={self.votes_share:g}: "
                "the raw graph is read for the rigorous one without votes"
            )
        if wanted and "degree_floor" in self.model_fields_set and self.degree_floor != 8:
            raise ValueError(f"degree_floor={self.degree_floor}: expected none for variant {self.variant}")
        if self.variant.endswith(STRANGERS) and self.choice_epsilon is not None:
            raise ValueError(
                f"choice_epsilon={self.choice_epsilon}: expected null for variant {self.variant}, where a node that "
                "leaves moves what its neighbours read"
            )
        return self

    @model_validator(mode="after")
    def _shares(self) -> Self:
        others = {} if self.hub_share is None else {"hub_share": self.hub_share}
        others |= {"reader_share": self.reader_share} if self.reader_share else {}
        shares = {"votes_share": self.votes_share, "mean_share": self.mean_share, **others}
        if sum(shares.values()) >= 1:
            given = ", ".join(f"{name}={value}" for name, value in shares.items())
            raise ValueError(f"{given}: expected a sum < 1: the rest trains")
        if self.choice_epsilon is not None and not self.votes_share:
            raise ValueError(f"choice_epsilon={self.choice_epsilon}: expected null with votes_share=0")
        if self.rounds > 1 and not self.votes_share:
            raise ValueError(f"rounds={self.rounds}: expected 1 with votes_share=0")
        if self.reader_share and not self.votes_share:
            raise ValueError(f"reader_share={self.reader_share}: expected 0 with votes_share=0")
        return self


class DpVotesCell(NetworkCell):
    """A cell of DP-Votes."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        **NetworkCell.NOISE_IGNORES,
        "training": (*NetworkCell.NOISE_IGNORES["training"], "averaged_share"),
        "privacy": (
            *NetworkCell.NOISE_IGNORES["privacy"],
            "shrinkage",
            "strength",
            "signed_rows",
            "one_hop",
            "label_votes",
            "reader_rate",
        ),
    }

    model: UndroppedMlp
    training: VotesTraining
    privacy: VotesPrivacy


def look(cell: Any) -> Look:
    """Return the look of a cell: by variant, and by what predictions read."""
    if cell.privacy.variant.endswith(STRANGERS):
        return Look(WINE, "*", DASH_DOT) if cell.privacy.degree_bound else Look(SLATE, "*", DASH_DOT)
    if cell.privacy.raw_inference:
        return Look(TEAL, "p", DASH_DOT)
    return Look(PURPLE, "*", "-") if cell.privacy.votes_share else Look(TEAL, "p", "-")


def score(cell: Any) -> ScoreReads:
    """Return what a score reads: the own record and, with votes, buckets: the own one, or those of the own list.

    The mean reads rows of all nodes, and all nodes vote except receivers of capped votes, so no record is public.
    """
    told = cell.privacy
    records = spec.OWN_RECORD | {spec.ReadBy.RAW_GRAPH} if told.raw_inference else spec.OWN_RECORD
    if not told.votes_share and not told.mean_share:
        return ScoreReads(records)
    listed = told.votes_share and not told.one_hop and told.variant != "node-remove-capped"
    reads = {spec.ReadBy.RELEASED, spec.ReadBy.OWN_LIST} if listed else {spec.ReadBy.RELEASED}
    return ScoreReads(records | reads, spec.Public.NO, protected="whose records and edges the run reads and protects")


def inference(cell: Any) -> PredictionInput:
    """Return what a prediction reads: its own record and releases, or the raw graph."""
    return PredictionInput.RAW_GRAPH if cell.privacy.raw_inference else PredictionInput.OWN_RECORD


def fallback(mechanism: Mapping[str, Any]) -> str:
    """Return a note if the public rule disabled voting because it expects no gain."""
    if mechanism.get("kind") in (None, "poisson-votes") or mechanism.get("votes_ratio") is not None:
        return ""
    return "falls back to own records here: nobody votes"


SOFTMAX: dict[str, Any] = {"architecture": "mlp", "hops": 0, "encoder_layers": 0}


def small(sampling_rate: float, model: dict[str, Any] = SOFTMAX, **privacy: Any) -> dict[str, dict[str, Any]]:
    """Return a small cell for the contract of methods."""
    return {"model": model, "training": {"sampling_rate": sampling_rate}, "privacy": {"epsilon": 6.0, **privacy}}


CAPPED: dict[str, Any] = {
    "degrees_share": 0.1, "cap_margin": 1.0, "hub_share": 0.1, "hub_limit": 40, "mean_share": 0.1, "votes_share": 0.4,
}  # fmt: skip
CONTRACT: dict[str, dict[str, Any]] = {
    "softmax": small(1.0, mean_share=0.1, choice_epsilon=0.5)
    | {"training": {"sampling_rate": 1.0, "averaged_share": 0.5}},
    "mlp": small(0.3, {"architecture": "mlp", "hops": 0, "width": 8}),
    "own": small(0.3, votes_share=0.0),
    "raw": small(0.3, votes_share=0.0, raw_inference=True),
    "rounds": small(1.0, rounds=3, one_hop=True, label_votes=False, choice_epsilon=0.5),
    "learnt": small(0.3, mean_share=0.1, choice_epsilon=0.5, reader_share=0.1, reader_steps=5),
    "node-remove-capped": small(1.0, variant="node-remove-capped", **CAPPED),
    "node-remove-strangers": small(0.5, variant="node-remove-strangers", degree_bound=50, taper=1.0),
    "node-remove-capped-strangers": small(1.0, variant="node-remove-capped-strangers", **CAPPED),
}


def attack(variant: str, relation: Relation) -> AttackCase:
    """Return how audits attack a variant."""
    return AttackCase(
        variant=variant,
        reads="records",
        votes=True,
        batches=Batches.POISSON,
        clipping=Clipped.ROOT,
        relation=relation,
        # votes have half of the squared mu
        canaries=spec.CanarySettings(noise=4 / 3 * 2**0.5) if variant == "rigorous" else None,
    )


SPECS = (
    MethodSpec(
        "dp-votes",
        "DP-SGD on own records, then one noisy release of every node's votes to the nodes it lists.",
        "dpgraph.families.votes.train:DpVotes",
        DpVotesCell,
        CONTRACT,
        {
            "rigorous": Variant(PoissonVotes, poisson_votes, score),
            "node-remove-capped": Variant(removed.CappedVotes, removed.capped_votes, score),
            "node-remove-strangers": Variant(removed.BoundedStrangerVotes, removed.bounded_stranger_votes, score),
            "node-remove-capped-strangers": Variant(removed.CappedStrangerVotes, removed.capped_stranger_votes, score),
        },
        (
            attack("rigorous", Relation.NODE_NULL),
            attack("node-remove-capped", Relation.NODE_REMOVE),
            attack("node-remove-strangers", Relation.NODE_REMOVE),
            attack("node-remove-capped-strangers", Relation.NODE_REMOVE),
        ),
        look=look,
        inference=inference,
        why_not_captured=spec.captured,
        fallback=fallback,
        rules={
            "own-records": rules.own_records,
            "votes": rules.votes,
            "votes-with-caps": rules.votes_with_caps,
            "votes-with-schema": rules.votes_with_schema,
            "votes-with-caps-strangers": rules.votes_with_caps_for_strangers,
            "votes-with-schema-strangers": rules.votes_with_schema_for_strangers,
        },
    ),
)
