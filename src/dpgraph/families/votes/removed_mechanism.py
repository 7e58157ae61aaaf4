"""Mechanisms of DP-Votes under node-remove: with noisy caps, and towards strangers (Theorems 15 and 16).

A stranger is everybody but the protected node and its neighbours. A stranger's record and list stay when that node
leaves, so its reading of the buckets is post-processing. Neighbours lose an id of their lists, which changes their
predictions without noise. Towards them the same run is stated under node-null, where their lists keep that id.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpgraph.core.errors import UserError, invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.votes import accountant, sensitivity
from dpgraph.families.votes import mechanism as mechanisms
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms.base import Count, Noise, NotNegative
from dpgraph.privacy.procedure import Release
from dpgraph.privacy.relation import PredictionInput, Relation, Scope
from dpgraph.privacy.statements import Statement

if TYPE_CHECKING:
    import numpy as np

    from dpgraph.families.votes.sensitivity import VotesRelation
    from dpgraph.privacy.accountants.renyi import Orders

PER_RECORD, PER_NODE = accountant.private_votes.statement, accountant.capped_votes.statement
TWO_HOPS = (
    "a node reads its own bucket and those of its own list, so that what neighbours of the protected node predict is "
    "not covered under this relation; no reader is chosen by data"
)
STRANGER_VOTES = replace(
    PER_RECORD, relation=Relation.NODE_REMOVE, scope=Scope.STRANGERS,
    assumptions=(
        "a public schema bounds every list, and the lists that name one node, by {D}; an edge is in both ends' lists, "
        "but where an end has no list, or where all votes weigh the same",
        PER_RECORD.assumptions[0],
        TWO_HOPS,
        *PER_RECORD.assumptions[2:],
    ),
)  # fmt: skip
CAPPED_STRANGER_VOTES = replace(
    PER_NODE, scope=Scope.STRANGERS,
    assumptions=(
        "a node lists at most {T0} others, and is in as many lists: {why}",
        PER_RECORD.assumptions[0],
        TWO_HOPS,
        *PER_NODE.assumptions[2:],
    ),
)  # fmt: skip


class CappedVotes(mechanisms.PoissonVotes):
    """`PoissonVotes` under node-remove, one way: training nodes vote, all others receive (Theorem 15).

    d_w counts receivers whose edge to the voter w is in both ends' lists.

    (a) Optional: receivers whose number of voters + N(0, T_0 / mu_a^2) exceeds H are hubs and receive no votes.
    (b) K_w = max(d_w + N(0, sigma^2) + 1 + z sigma, m), with sigma = sqrt(T) / mu_d.
    (c) Votes weigh 1 / sqrt(max(d_w, K_w)); a receiver reads its own bucket alone.

    T_0 is the most receivers of a voter, T the most voters of a receiver: a number of ids or a schema's bound. After
    (a) T is at most H + z_a sqrt(T_0) / mu_a, which a receiver that is no hub exceeds with probability UNLIKELY delta.

    A voter that leaves moves training, (a) and (c). A receiver that leaves moves (b) and, by S B, (c). So epsilon is
    the larger of the two.

    Guarantee: node-remove (epsilon, delta)-DP, scope joint.
    """

    relation: ClassVar[Relation] = PER_NODE.relation
    several_rounds: ClassVar[bool] = False
    says: ClassVar[Statement] = PER_NODE

    kind: Literal["capped-votes"] = "capped-votes"  # type: ignore[assignment]
    degree_bound: Count = Field(description="D, public: most edges of a node")
    by_schema: bool = Field(description="True if D is a schema's bound, false if it is the number of other ids")
    margin: NotNegative = Field(description="z, public: standard deviations between a noisy degree and its cap")
    degrees_ratio: Noise | None = Field(description="Noise std of degrees / (sqrt(T) noise multiplier); None: no votes")
    hubs_ratio: Noise | None = Field(default=None, description="Same of stage (a), for T_0; None: there is none")
    hub_limit: float | None = Field(default=None, description="H, public")

    @model_validator(mode="after")
    def _capped(self) -> CappedVotes:
        if self.degrees_ratio is None and self.votes_ratio is not None:
            raise invalid("degrees_ratio", None, "a number where nodes vote")
        if (self.hubs_ratio is None) != (self.hub_limit is None):
            raise invalid("hub_limit", self.hub_limit, "a number exactly with hubs_ratio")
        if self.hub_limit is not None and not 1 <= self.hub_limit < math.inf:
            raise invalid("hub_limit", self.hub_limit, "a finite number >= 1")
        return self

    @property
    def votes_mu(self) -> float:
        """The mu of all that a voter moves after the last step: its votes, and the flags of hubs."""
        return 0.0 if self.votes_ratio is None else math.hypot(self._mu(self.votes_ratio), self._mu(self.hubs_ratio))

    @property
    def received_mu(self) -> float:
        """The mu of all that a receiver moves: voters' degrees, and the votes of voters above their caps."""
        if self.votes_ratio is None:
            return 0.0
        return math.hypot(self._mu(self.degrees_ratio), self.moved_by_receivers * self._mu(self.votes_ratio))

    @property
    def delta_left(self) -> float:
        """The part of delta that the composition of a receiver may use; the unlikely events take the rest."""
        if self.votes_ratio is None:
            return self.delta
        return self.delta * (1 - sensitivity.UNLIKELY * (1 if self.hubs_ratio is None else 2))

    @property
    def most_nodes(self) -> int:
        """Voters and receivers together, public."""
        return self.num_protected or self.num_roots

    @property
    def most_sent(self) -> int:
        """T_0: the most receivers of a voter."""
        return max(1, min(self.degree_bound, self.most_nodes - self.num_roots))

    @property
    def hubs_noise(self) -> float | None:
        """Noise std of the numbers of voters in stage (a); None without that stage."""
        return None if self.hubs_ratio is None else math.sqrt(self.most_sent) / self._mu(self.hubs_ratio)

    @property
    def most_edges(self) -> int:
        """T: the most voters of a receiver that is no hub, except with probability UNLIKELY delta."""
        most = min(self.degree_bound, self.num_roots)
        if self.hubs_noise is None or self.hub_limit is None:
            return most
        failure = sensitivity.UNLIKELY * self.delta
        return sensitivity.most_voters(hub_limit=self.hub_limit, hubs_noise=self.hubs_noise, failure=failure, most=most)

    @property
    def degrees_noise(self) -> float:
        """sigma: noise std of the degrees of voters."""
        return math.sqrt(self.most_edges) / self._mu(self.degrees_ratio)

    @property
    def moved_by_receivers(self) -> float:
        """S: sensitivity of the buckets, in B, to a receiver that leaves."""
        return sensitivity.capped_receiver_votes(
            degree_bound=self.most_edges,
            margin=self.margin,
            degree_floor=self.degree_floor,
            failure=sensitivity.UNLIKELY * self.delta,
        )

    def _epsilon_under(self, relation: VotesRelation) -> float:
        """Return the larger epsilon of a voter's and a receiver's side."""
        from dpgraph.families.votes.epsilon import released_epsilon

        mu = math.hypot(self.mean_mu, self.received_mu)
        receiver = released_epsilon(mu=mu, choice=self.choice_epsilon, delta=self.delta_left)
        return max(super()._epsilon_under(relation), receiver)

    def rdp(self, orders: Orders) -> np.ndarray:
        """Raise UserError: unlikely events are charged to delta."""
        raise UserError(f"mechanism={self.kind}: unlikely events are charged to delta: no Renyi divergence is stated")

    def beside(self) -> tuple[Guarantee, ...]:
        """Return no guarantee under other relations."""
        return ()

    @property
    def releases(self) -> tuple[Release, ...]:
        """Releases in their order: hubs and degrees come before the votes, which read them."""
        found = list(super().releases)
        if self.votes_ratio is None:
            return tuple(found)
        place = [one.kind for one in found].index(mechanisms.BUCKETS)
        return (*found[:place], *self.before_votes, *found[place:])

    @property
    def before_votes(self) -> tuple[Release, ...]:
        """Releases of hubs, if there is such a stage, and of degrees."""
        root = math.sqrt(self.most_edges)
        degrees = Release(
            kind=mechanisms.DEGREES, noise=self.degrees_noise, sensitivity=root, count=1, margin=self.margin
        )
        if self.hubs_noise is None:
            return (degrees,)
        root = math.sqrt(self.most_sent)
        hubs = Release(kind=mechanisms.HUBS, noise=self.hubs_noise, sensitivity=root, count=1, limit=self.hub_limit)
        return hubs, degrees

    @property
    def _stated(self) -> Statement:
        why = "a public schema" if self.by_schema else "all other ids"
        unlikely = f"{round(1 - self.delta_left / self.delta, 3):g}"
        moved = 0.0 if self.votes_ratio is None else self.moved_by_receivers
        values = {"q": f"{self.sampling_rate:.6g}", "T0": self.degree_bound, "S": f"{moved:.4g}"}
        return self.says.filled({**values, "why": why, "failure": unlikely})


class _ForStrangers(mechanisms.PoissonVotes):
    """Scope and restrictions of both mechanisms for strangers.

    Lists are the owners' own, whether or not the named nodes name the owner.
    """

    @model_validator(mode="after")
    def _no_choice(self) -> Self:
        if self.choice_epsilon:
            raise invalid("choice_epsilon", self.choice_epsilon, "0: who leaves moves its neighbours' utilities")
        return self

    @property
    def scope(self) -> Scope:
        """Strangers, unless predictions read the raw graph."""
        return Scope.STRANGERS if self.inference is PredictionInput.OWN_RECORD else self.inference.scope

    def _null(self, epsilon: float) -> Guarantee:
        """Return the node-null guarantee towards all others, neighbours included."""
        stated = replace(self._stated, relation=Relation.NODE_NULL)
        given = "what others see is what they read, and not others' buckets or noisy degrees"
        return self._proved(stated, epsilon, given, scope=self.inference.scope)


class BoundedStrangerVotes(_ForStrangers):
    """`PoissonVotes` under node-remove in the view of strangers, where a schema bounds all lists by D (Theorem 16).

    Votes weigh g(d) = (1 + kappa (1 - 2 sqrt(d / D))) / sqrt(D) of the length d of the owner's list. No node votes for
    itself; it reads its own bucket and those of its list. When a node leaves that is in as many lists as it lists, the
    buckets of all others move by at most B (docs/privacy/votes.md#theorem-14). When a record becomes null they move by
    (1 + kappa)^2 / (8 kappa) B, or (1 - kappa) B. The composition is that of `PoissonVotes`.

    Guarantee: node-remove (epsilon, delta)-DP, scope strangers.
    """

    relation: ClassVar[Relation] = STRANGER_VOTES.relation
    several_rounds: ClassVar[bool] = False
    says: ClassVar[Statement] = STRANGER_VOTES

    kind: Literal["bounded-stranger-votes"] = "bounded-stranger-votes"  # type: ignore[assignment]
    degree_floor: Count = 1
    degree_bound: Count = Field(description="D, public: no list is longer, by a schema and not by looking")
    taper: float = Field(description="kappa, public: 0: all votes weigh the same, 1: short lists up to twice as much")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not 0 <= self.taper <= 1:
            raise invalid("taper", self.taper, "a number in [0, 1]")
        if self.degree_floor != 1:
            raise invalid("degree_floor", self.degree_floor, "1 under a degree bound")
        return self

    @property
    def weighted(self) -> dict[str, Any]:
        """Fields of a release that say how much a vote weighs."""
        return {"mass": self.mass, "list_cap": self.degree_bound, "taper": self.taper}

    @property
    def _stated(self) -> Statement:
        return self.says.filled({"q": f"{self.sampling_rate:.6g}", "D": self.degree_bound})

    def beside(self) -> tuple[Guarantee, ...]:
        """Return the guarantees for an edge and for a record that becomes null, both towards all others."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        moved = sensitivity.bounded_edge_votes(degree_bound=self.degree_bound, taper=self.taper)
        epsilon = gaussian_epsilon(mu=moved * self._mu(self.votes_ratio), delta=self.delta)
        edge = self._proved(replace(self._stated, relation=Relation.EDGE), epsilon, scope=self.inference.scope)
        moved = sensitivity.bounded_null_votes(self.taper)
        less = self if self.votes_ratio is None else self.model_copy(update={"votes_ratio": self.votes_ratio / moved})
        return edge, self._null(less._epsilon_under("node-null"))


class CappedStrangerVotes(CappedVotes, _ForStrangers):
    """`CappedVotes` read over two hops, in the view of strangers (Theorem 16). Lists need not be mutual.

    A record that becomes null moves training and, if it is a voter's, (a) and its own votes: the voter's part of
    epsilon. Only a receiver itself reads its list; even the count of (a) is over the lists of voters.

    Guarantee: node-remove (epsilon, delta)-DP, scope strangers.
    """

    says: ClassVar[Statement] = CAPPED_STRANGER_VOTES
    kind: Literal["capped-stranger-votes"] = "capped-stranger-votes"  # type: ignore[assignment]

    def beside(self) -> tuple[Guarantee, ...]:
        """Return the guarantee for a record that becomes null, towards all others."""
        return (self._null(mechanisms.PoissonVotes._epsilon_under(self, "node-null")),)


def bounded_stranger_votes(request: MechanismRequest) -> BoundedStrangerVotes:
    """Build the mechanism of variant `node-remove-strangers`."""
    privacy = request.privacy
    return BoundedStrangerVotes(
        **mechanisms.votes_fields(request), degree_bound=privacy.degree_bound, taper=privacy.taper
    )


def capped_votes(request: MechanismRequest) -> CappedVotes:
    """Build the mechanism of variant `node-remove-capped`."""
    return CappedVotes(**_capped(request))


def capped_stranger_votes(request: MechanismRequest) -> CappedStrangerVotes:
    """Build the mechanism of variant `node-remove-capped-strangers`."""
    return CappedStrangerVotes(**_capped(request))


def _capped(request: MechanismRequest) -> dict[str, Any]:
    """Return the fields of votes with noisy caps; receivers pay for the degrees, voters for the hubs."""
    privacy = request.privacy
    ids = request.counts.num_protected or request.num_train
    shares = (privacy.hub_share or 0.0,)  # shares of the voters' budget; receivers pay for the degrees
    return {
        **mechanisms.votes_fields(request, shares, len(mechanisms.NOISE_READERS)),
        "degree_floor": privacy.degree_floor,
        "degree_bound": max(ids - 1, 1) if privacy.degree_bound is None else privacy.degree_bound,
        "by_schema": privacy.degree_bound is not None,
        "margin": privacy.cap_margin or 0.0,
        "degrees_ratio": mechanisms.share_ratio(request, privacy.degrees_share, shares),
        "hubs_ratio": mechanisms.share_ratio(request, privacy.hub_share, shares),
        "hub_limit": privacy.hub_limit,
    }
