"""Mechanisms of GAP, ProGAP and edge votes: noisy sums over neighbours, and steps on them (Theorem 19).

Sajadmanesh et al. (2023), Sajadmanesh and Gatica-Perez (2024); docs/privacy/aggregates.md. K times, rows of norm at
most 1 are summed over a node's senders and released with Gaussian noise. All training before, between and after reads
one record and releases. `noise_multiplier` is the noise std over the clip norm of the steps for node-level mechanisms,
whose sums have a public multiple of that noise. For edge-level ones it is the noise std of the sums.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees.records import PoissonLots
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms.base import Count, Noise, NoisySteps
from dpgraph.privacy.procedure import Lists, Release
from dpgraph.privacy.public_numbers import Counted
from dpgraph.privacy.relation import PredictionInput, Relation, Scope
from dpgraph.privacy.statements import PUBLIC, Statement

SUMS = "sums over neighbours"
SWAPPED_EDGE = math.sqrt(6)  # how far an edge moves capped sums: each end drops one receiver and takes another
BOTH_ENDS = math.sqrt(2)  # how far it moves sums over whole lists: each end loses the other's row
CAPPED_SUMS = Statement(
    method="Poisson-subsampled Gaussian steps and Gaussian sums, privacy loss distribution",
    relation=Relation.NODE_NULL, sampling="Poisson, rate {q}", not_covered=(PUBLIC,), scope=Scope.JOINT,
    assumptions=(
        "a gradient reads one record and what was released",
        "a node's row of norm 1 is added to at most {D} nodes of its own list, chosen by public priorities",
        "a null record sends nothing",
        "noise and batches are drawn in secret",
        "a node's own prediction reads its own record: nothing is said of publishing it",
    ),
)  # fmt: skip
BOUNDED_SUMS = replace(
    CAPPED_SUMS, relation=Relation.NODE_REMOVE,
    assumptions=(
        CAPPED_SUMS.assumptions[0],
        "a public schema bounds every list by {D} ids; edges count that are in both ends' lists",
        *CAPPED_SUMS.assumptions[2:],
    ),
)  # fmt: skip
EDGE_SUMS = Statement(
    method="Gaussian DP of the sums", relation=Relation.EDGE, sampling="none", not_covered=(PUBLIC,),
    scope=Scope.ALL_OUTPUTS,
    assumptions=(
        "an edge is in both ends' lists and moves two rows of each sum by 1",
        "features and labels are not protected: training and predictions read them, and no edge",
    ),
)  # fmt: skip
PRINTED_SUMS = replace(CAPPED_SUMS, method="Renyi DP of all parts, orders 1.01 to 256", relation=Relation.NODE_REMOVE,
                       assumptions=("every node sends to at most {D} others, so that one node moves a sum by sqrt(D)",),
                       not_covered=())  # fmt: skip
UNSTABLE_RECEIVERS = (
    "removing a node makes each neighbour that sent to it send to another one instead: no function of D bounds how "
    "many rows move"
)


class NodeAggregates(PoissonLots):
    """K noisy sums, each of sensitivity sqrt(D), and T noisy steps on single records, composed adaptively."""

    prepared: ClassVar[str] = "dpgraph.families.aggregates.prepared:PreparedAggregates"
    counted: ClassVar[Counted] = Counted.EVERYBODY
    lists_kind: ClassVar[Lists]
    says: ClassVar[Statement]
    unmet: ClassVar[tuple[str, ...]] = ()  # premises of the paper's formula that do not hold
    edge_moves: ClassVar[float]  # norm by which an edge in both ends' lists moves a sum of rows of norm 1

    kind: str  # type: ignore[assignment]  # subclasses name it
    aggregations: Count = Field(description="K, noisy sums")
    receivers: Count = Field(description="D, public: to how many nodes a node's row is added")
    sums_ratio: Noise = Field(description="Noise std of a sum / (sqrt(D) noise multiplier); 1: as in the papers")

    @property
    def sums_noise(self) -> float:
        """Noise std of a sum in units of its sensitivity."""
        return self.sums_ratio * self.closed()[1]

    @property
    def release_mu(self) -> float:
        """The mu of all K sums together."""
        return math.sqrt(self.aggregations) / self.sums_noise

    def rigorous(self) -> Guarantee:
        """Return the guarantee of Theorem 19."""
        return self._proved(self._stated, self._epsilon())

    def published(self) -> Guarantee:
        """Return the claimed guarantee: Renyi DP of subsampled steps and K Gaussian sums, for any sampler."""
        from dpgraph.families.aggregates.epsilon import node_level_epsilon

        steps, noise = self.closed()
        epsilon = node_level_epsilon(
            rate=self.sampling_rate,
            noise_multiplier=noise,
            steps=steps,
            aggregations=self.aggregations,
            sums_noise=self.sums_noise,
            delta=self.delta,
        )
        stated = PRINTED_SUMS.filled({"q": f"{self.sampling_rate:.6g}", "D": self.receivers})
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=self.unmet)

    def beside(self) -> tuple[Guarantee, ...]:
        """Return the guarantee of the same run for an edge in both ends' lists, which moves the sums only."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        mu = self.edge_moves / math.sqrt(self.receivers) * self.release_mu
        stated = replace(self._stated, relation=Relation.EDGE)
        return (self._proved(stated, gaussian_epsilon(mu=mu, delta=self.delta)),)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The K noisy sums."""
        return (
            sums_release(
                noise=self.sums_noise,
                sensitivity=math.sqrt(self.receivers),
                count=self.aggregations,
                cap=self.receivers,
                lists=self.lists_kind,
            ),
        )

    @property
    def _stated(self) -> Statement:
        return self.says.filled({"q": f"{self.sampling_rate:.6g}", "D": self.receivers})


class CappedAggregates(NodeAggregates):
    """Sums in which each node's row goes to the D nodes of its list with the smallest public priorities (Theorem 19).

    Under node-null the record takes its own, at most D, contributions with it and changes no others: sensitivity
    sqrt(D). Under node-remove, the relation of the papers, neighbours send elsewhere instead, and no D bounds what
    moves.

    Guarantee: node-null (epsilon, delta)-DP, scope joint.
    """

    relation: ClassVar[Relation] = CAPPED_SUMS.relation
    says: ClassVar[Statement] = CAPPED_SUMS
    unmet: ClassVar[tuple[str, ...]] = (UNSTABLE_RECEIVERS,)
    lists_kind: ClassVar[Lists] = Lists.STABLE
    edge_moves: ClassVar[float] = SWAPPED_EDGE
    more_streams: ClassVar[tuple[str, ...]] = ("edge lists",)

    kind: Literal["capped-aggregates"] = "capped-aggregates"  # type: ignore[assignment]


class BoundedAggregates(NodeAggregates):
    """Sums over whole lists, which a public schema bounds by D ids; edges in both ends' lists count (Theorem 19).

    Removing a node takes its at most D contributions with it and changes no other: sensitivity sqrt(D).

    Guarantee: node-remove (epsilon, delta)-DP, scope joint.
    """

    relation: ClassVar[Relation] = BOUNDED_SUMS.relation
    says: ClassVar[Statement] = BOUNDED_SUMS
    lists_kind: ClassVar[Lists] = Lists.UNBOUNDED
    edge_moves: ClassVar[float] = BOTH_ENDS

    kind: Literal["bounded-aggregates"] = "bounded-aggregates"  # type: ignore[assignment]


class EdgeAggregates(NoisySteps):
    """K noisy sums over whole lists under edge privacy. Features and labels are public, so steps are free.

    `noise_multiplier` is the noise std of a sum of rows of norm at most 1. An edge in both ends' lists moves two of
    them: sensitivity sqrt(2), where the papers count 1, that of a directed edge.

    Guarantee: edge (epsilon, delta)-DP by Gaussian DP of the sums, scope all outputs unless predictions read the graph.
    """

    relation: ClassVar[Relation] = EDGE_SUMS.relation
    counted: ClassVar[Counted] = Counted.EVERYBODY
    prepared: ClassVar[str] = "dpgraph.families.aggregates.prepared:PreparedEdgeAggregates"
    steps_cost: ClassVar[bool] = False
    more_streams: ClassVar[tuple[str, ...]] = ("batches",)

    kind: Literal["edge-aggregates"] = "edge-aggregates"
    aggregations: Count = Field(description="K, noisy sums")

    @property
    def scope(self) -> Scope:
        """The scope: all outputs, unless predictions read the raw graph: a node's own record is not protected."""
        return Scope.ALL_OUTPUTS if self.inference is PredictionInput.OWN_RECORD else super().scope

    def _mu(self, moved: float) -> float:
        """Return mu of all K sums, each of which an edge moves by `moved`."""
        return moved * math.sqrt(self.aggregations) / self.closed()[1]

    def rdp(self, orders: tuple[float, ...]) -> np.ndarray:
        """Return the Renyi divergences of the sums at `orders`."""
        return np.asarray(orders) * self._mu(BOTH_ENDS) ** 2 / 2

    def rigorous(self) -> Guarantee:
        """Return the edge guarantee by Gaussian DP."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        return self._proved(EDGE_SUMS.filled(), gaussian_epsilon(mu=self._mu(BOTH_ENDS), delta=self.delta))

    def published(self) -> Guarantee:
        """Return the claimed guarantee, in which an edge moves one row."""
        from dpgraph.families.aggregates.epsilon import edge_level_epsilon

        epsilon = edge_level_epsilon(aggregations=self.aggregations, noise=self.closed()[1], delta=self.delta)
        stated = replace(EDGE_SUMS, method=PRINTED_SUMS.method, assumptions=("an edge moves one row of a sum by 1",))
        directed = "edges are undirected: one moves two rows"
        return stated.filled().guarantee("published", epsilon=epsilon, delta=self.delta, unmet=(directed,))

    @property
    def releases(self) -> tuple[Release, ...]:
        """The K noisy sums."""
        noise = self.closed()[1] / BOTH_ENDS
        return (
            sums_release(noise=noise, sensitivity=BOTH_ENDS, count=self.aggregations, cap=None, lists=Lists.UNBOUNDED),
        )


class EdgeVotesSum(EdgeAggregates):
    """One noisy sum of unit votes over whole lists under edge privacy: the sums of an edge with K = 1."""

    kind: Literal["edge-votes"] = "edge-votes"  # type: ignore[assignment]
    aggregations: Literal[1] = 1

    def published(self) -> Guarantee:
        """Return no guarantee: no paper has published this mechanism."""
        return self._none("published", "no paper has published this mechanism", "none")


def sums_release(*, noise: float, sensitivity: float, count: int, cap: int | None, lists: Lists) -> Release:
    """Return the release of `count` noisy sums.

    Args:
        noise: Noise std in units of the sensitivity.
        sensitivity: How far the protected unit moves a sum.
        count: K.
        cap: D; None: lists have no bound.
        lists: Kind of the lists.
    """
    fields: dict[str, Any] = {} if cap is None else {"list_cap": cap}
    return Release(kind=SUMS, noise=noise, sensitivity=sensitivity, count=count, lists=lists, **fields)


def capped_aggregates(request: MechanismRequest) -> CappedAggregates:
    """Build the mechanism of variants `rigorous` and `published`."""
    return CappedAggregates(**_node_level(request), receivers=request.privacy.receivers)


def bounded_aggregates(request: MechanismRequest) -> BoundedAggregates:
    """Build the mechanism of variant `node-remove`."""
    return BoundedAggregates(**_node_level(request), receivers=request.privacy.degree_bound)


def edge_aggregates(request: MechanismRequest) -> EdgeAggregates:
    """Build the mechanism of variant `edge`."""
    return EdgeAggregates(**request.common(request.num_train), aggregations=request.cell.model.aggregations)


def edge_votes(request: MechanismRequest) -> EdgeVotesSum:
    """Build the mechanism of edge votes, which are summed once."""
    return EdgeVotesSum(**request.common(request.num_train))


def _node_level(request: MechanismRequest) -> dict[str, Any]:
    """Return the fields that both node-level mechanisms have.

    With a share of the budget, the squares of mu of sums and steps are as their shares. T steps at rate q count q^2 T /
    s^2, which is exact for full batches. The accountant composes what ran.
    """
    share, aggregations, ratio = request.privacy.sums_share, request.cell.model.aggregations, 1.0
    if share is not None:
        if request.steps is None:
            raise invalid("steps", "max", "a number: shares of the budget are shares of that many steps")
        ratio = math.sqrt(aggregations * (1 - share) / share / request.steps) / request.rate
    return {
        **request.common(request.num_train),
        "sampling_rate": request.rate,
        "aggregations": aggregations,
        "sums_ratio": ratio,
    }
