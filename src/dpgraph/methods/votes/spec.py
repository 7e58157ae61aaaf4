"""Private votes (ours, docs/privacy.md, Theorem V): training on own records, and predictions that neighbours inform."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpgraph.experiments.cell import LARGE, NetworkCell, Privacy, RootBatches, UndroppedMlp
from dpgraph.methods.attacks import AttackCase
from dpgraph.methods.looks import PURPLE, TEAL, Look
from dpgraph.methods.spec import MethodSpec, Variant
from dpgraph.methods.votes.mechanism import bounded_votes, poisson_votes
from dpgraph.privacy.mechanisms.votes import BoundedVotes, PoissonVotes
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import PredictionInput, Relation


class VotesTraining(RootBatches):
    averaged_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="Share of the steps, the last ones, whose parameters are averaged; 0: the last alone"
    )


class VotesPrivacy(Privacy):
    variant: Literal["rigorous", "node-remove"] = Field(
        default="rigorous",
        description="rigorous (node-null; a node reads the buckets of its list), node-remove (a node with all its "
        "edges; needs a public bound on degrees, and a node reads its own bucket alone)",
    )
    votes_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.5, description="Share of the squared mu of all Gaussian parts for votes; 0: own records alone"
    )
    mean_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description="The same for the mean of the rows, which keeps features and centres rows; 0: it is not released",
    )
    vote_mass: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=0.3, description="a: what a vote adds to the coordinate that counts voters"
    )
    degree_floor: Annotated[int, Field(ge=1, le=LARGE)] = Field(
        default=8, description="m: votes weigh 1 / sqrt(max(d + 1, m)), which makes the epsilon of an edge small"
    )
    choice_epsilon: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Part of epsilon for choosing, on training and validation nodes, how buckets are read; null: as is "
        "usual",
    )

    degree_bound: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None, description="D: no list is longer, by a public schema and not by looking (variant node-remove)"
    )
    taper: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="kappa: 0: all votes weigh 1 / sqrt(D), 1: those of short lists up to twice as much (variant "
        "node-remove)",
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        wanted = self.variant == "node-remove"
        for name in ("degree_bound", "taper"):
            value = getattr(self, name)
            if (value is not None) != wanted:
                expected = "a number" if wanted else "null"
                raise ValueError(f"{name}={value}: expected {expected} for variant {self.variant}")
        if wanted and "degree_floor" in self.model_fields_set and self.degree_floor != 8:
            raise ValueError(f"degree_floor={self.degree_floor}: expected none for variant node-remove")
        return self

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.votes_share + self.mean_share >= 1:
            raise ValueError(
                f"votes_share={self.votes_share}, mean_share={self.mean_share}: expected a sum < 1: the rest trains"
            )
        if self.choice_epsilon is not None and not self.votes_share:
            raise ValueError(f"choice_epsilon={self.choice_epsilon}: expected null with votes_share=0")
        return self


class DpVotesCell(NetworkCell):
    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        **NetworkCell.NOISE_IGNORES,
        "training": (*NetworkCell.NOISE_IGNORES["training"], "averaged_share"),
    }

    model: UndroppedMlp
    training: VotesTraining
    privacy: VotesPrivacy


def look(cell: Any) -> Look:
    return Look(PURPLE, "*", "-") if cell.privacy.votes_share else Look(TEAL, "p", "-")


def own_record(cell: Any) -> PredictionInput:
    """A node reads its own record and what was released."""
    return PredictionInput.OWN_RECORD


SOFTMAX = {"architecture": "mlp", "hops": 0, "encoder_layers": 0}
CONTRACT: dict[str, dict[str, Any]] = {
    "softmax": {
        "model": SOFTMAX,
        "training": {"sampling_rate": 1.0, "averaged_share": 0.5},
        "privacy": {"epsilon": 6.0, "mean_share": 0.1, "choice_epsilon": 0.5},
    },
    "mlp": {
        "model": {"architecture": "mlp", "hops": 0, "width": 8},
        "training": {"sampling_rate": 0.3},
        "privacy": {"epsilon": 6.0},
    },
    "own": {
        "model": SOFTMAX,
        "training": {"sampling_rate": 0.3},
        "privacy": {"epsilon": 6.0, "votes_share": 0.0},
    },
    "node-remove": {
        "model": SOFTMAX,
        "training": {"sampling_rate": 0.5},
        "privacy": {
            "variant": "node-remove", "epsilon": 6.0, "degree_bound": 50, "taper": 1.0, "choice_epsilon": 0.5,
        },
    },
}  # fmt: skip


def attack(variant: str, relation: Relation) -> AttackCase:
    return AttackCase(
        variant=variant,
        reads="records",
        votes=True,
        batches=Batches.POISSON,
        clipping=Clipped.ROOT,
        relation=relation,
    )


SPECS = (
    MethodSpec(
        "dp-votes",
        "DP-SGD on own records, then one noisy release of every node's votes to the nodes it lists.",
        "dpgraph.methods.votes.train:DpVotes",
        DpVotesCell,
        CONTRACT,
        {
            "rigorous": Variant(PoissonVotes, poisson_votes),
            "node-remove": Variant(BoundedVotes, bounded_votes),
        },
        (attack("rigorous", Relation.NODE_NULL), attack("node-remove", Relation.NODE_REMOVE)),
        look=look,
        inference=own_record,
    ),
)
