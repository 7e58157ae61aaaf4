"""Training on own records, votes of every node to the nodes it lists, and a choice among readers (docs/privacy.md, 12).

`noise_multiplier` is noise std / clip norm of the steps; the noise of the releases is a public multiple of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from dpgraph.core.errors import UserError, invalid
from dpgraph.families.trees.records import PoissonLots
from dpgraph.families.votes import accountant as named_votes
from dpgraph.families.votes.sensitivity import UNLIKELY, bounded_edge_votes, capped_votes, most_voters
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement
from dpgraph.privacy.mechanisms.base import Count, Noise, NotNegative
from dpgraph.privacy.procedure import Release
from dpgraph.privacy.public_numbers import Counted
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

if TYPE_CHECKING:
    import numpy as np

    from dpgraph.families.votes.sensitivity import VotesRelation
    from dpgraph.privacy.accountants.renyi import Orders

MEAN, BUCKETS, READER = "mean of the rows", "votes", "choice of the reader"
LEARNT = "steps of the reader"
HUBS, DEGREES = "who is a hub", "degrees"
BOUNDED_VOTES = replace(
    named_votes.private_votes.statement, relation=Relation.NODE_REMOVE,
    assumptions=(
        "a public schema bounds every list by {D} ids; edges count that are in both ends' lists",
        *named_votes.capped_votes.statement.assumptions[1:2],
        *named_votes.private_votes.statement.assumptions[2:],
    ),
)  # fmt: skip


class PoissonVotes(PoissonLots):
    """Noisy mean of the rows, noisy steps on own records, noisy votes, and a choice: composed adaptively.

    Under node-null a record moves each of the first three by its sensitivity 1 (rows of norm 1), C and B, and the
    utilities of the choice by 1 in one direction, which exp(choice_epsilon * utility) makes choice_epsilon-DP.
    """

    relation: ClassVar[Relation] = named_votes.private_votes.statement.relation
    counted: ClassVar[Counted] = Counted.EVERYBODY
    release_streams: ClassVar[Mapping[str, tuple[str, int | None]]] = {HUBS: ("degrees", 1), DEGREES: ("degrees", 1)}
    several_rounds: ClassVar[bool] = True  # whether they are proved

    prepared: ClassVar[str] = "dpgraph.families.votes.prepared:PreparedVotes"
    kind: Literal["poisson-votes"] = "poisson-votes"  # type: ignore[assignment]
    mean_ratio: Noise | None = Field(description="Noise std of the mean / noise multiplier; None: no mean is released")
    votes_ratio: Noise | None = Field(description="Noise std of votes / (B noise multiplier); None: nobody votes")
    rounds: int = Field(default=1, description="Releases of buckets, each with that noise")
    mass: float = Field(description="a, public: what a vote adds to the coordinate that counts voters")
    degree_floor: Count = Field(description="m, public: votes weigh 1 / sqrt(max(d + 1, m))")
    choice_epsilon: NotNegative = Field(default=0.0, description="Of the choice among `readers`; 0: none")
    readers: int = Field(default=1, description="Ways to read that are chosen from, public")
    reader_ratio: Noise | None = Field(
        default=None, description="Noise std of a step of the reader / (its clip norm, noise multiplier); None: none"
    )
    reader_steps: int = Field(default=0, description="T_r: steps in which a reader is learnt, with that noise")

    @model_validator(mode="after")
    def _votes(self) -> PoissonVotes:
        if not 0 < self.mass < math.inf:
            raise invalid("mass", self.mass, "a finite number > 0")
        if (self.choice_epsilon > 0) != (self.readers > 1) or self.readers < 1:
            raise invalid("readers", self.readers, "an integer > 1 exactly with choice_epsilon > 0, else 1")
        if self.rounds < 1 or (self.rounds > 1 and (self.votes_ratio is None or not self.several_rounds)):
            raise invalid("rounds", self.rounds, "an integer >= 1, and 1 where nobody votes or under node-remove")
        if self.choice_epsilon and self.votes_ratio is None:
            raise invalid("choice_epsilon", self.choice_epsilon, "0 where nobody votes: there is nothing to choose")
        if (self.reader_steps > 0) != (self.reader_ratio is not None) or self.reader_steps < 0:
            raise invalid("reader_steps", self.reader_steps, "an integer > 0 exactly with reader_ratio, else 0")
        if self.reader_steps and not self.learns:
            raise invalid("reader_steps", self.reader_steps, "0 where nobody votes, in several rounds or node-remove")
        return self

    @property
    def learns(self) -> bool:
        """Whether it is proved that a reader may be learnt (Theorem L)."""
        return self.relation is Relation.NODE_NULL and self.rounds == 1 and self.votes_ratio is not None

    def _mu(self, ratio: float | None) -> float:
        """mu of a release whose noise std is `ratio` noise multipliers, per unit of sensitivity."""
        return 0.0 if ratio is None else 1 / (ratio * self.closed()[1])

    @property
    def mean_mu(self) -> float:
        """Of the mean of the rows; 0: it is not released."""
        return self._mu(self.mean_ratio)

    @property
    def release_mu(self) -> float:
        return math.hypot(self.mean_mu, self.votes_mu, self.reader_mu)

    @property
    def reader_mu(self) -> float:
        """Of all steps of the reader together; 0: none is learnt."""
        return math.sqrt(self.reader_steps) * self._mu(self.reader_ratio)

    @property
    def votes_mu(self) -> float:
        """Of the buckets of all rounds, with all that is released for them alone."""
        return math.sqrt(self.rounds) * self._mu(self.votes_ratio)

    def rdp(self, orders: Orders) -> np.ndarray:
        from dpgraph.privacy.accountants.composition import PureDp

        steps = super().rdp(orders)
        return steps + PureDp(self.choice_epsilon).rdp(orders) if self.choice_epsilon else steps

    def fixed_epsilon(self, mode: Mode) -> float:
        """Of the choice alone, which no noise takes back: a bound."""
        return self.choice_epsilon if mode == "rigorous" else 0.0

    def rigorous(self) -> Guarantee:
        return self._proved(self._stated, self._epsilon_under("node-null"), *self._released)

    def published(self) -> Guarantee:
        return self._none("published", "no paper has published this mechanism", "Poisson")

    def beside(self) -> tuple[Guarantee, ...]:
        """The same run when a record is replaced by any other, and when an edge goes that is in both ends' lists.

        Nothing is stated of edges where votes of a later round read lists: Lemma E is about weights alone.
        """
        both_ends = "both ends' lists name each other; two utilities move, in either direction"
        both_ends += f", and in each of {self.reader_steps} steps two gradients" if self.reader_steps else ""
        replaced, edge = (replace(self._stated, relation=one) for one in (Relation.RECORD_REPLACE, Relation.EDGE))
        records = self._proved(replaced, self._epsilon_under("record-replace"))
        if self.rounds > 1:
            return (records,)
        return records, self._proved(edge, self._epsilon_under("edge"), both_ends)

    def _epsilon_under(self, relation: VotesRelation) -> float:
        from dpgraph.families.votes.epsilon import votes_epsilon

        steps, noise = self.closed()
        return votes_epsilon(
            rate=self.sampling_rate,
            noise_multiplier=noise,
            steps=steps,
            mean_mu=self.mean_mu,
            votes_mu=self.votes_mu,
            reader_mu=self.reader_mu,
            choice_epsilon=self.choice_epsilon,
            mass=self.mass,
            degree_floor=self.degree_floor,
            delta=self.delta,
            relation=relation,
        )

    def at_step(self, step: int) -> PrivacyStatement:
        """Votes and choice come after the last step: what was released before is not charged for them."""
        if step == 0 and self.mean_ratio is not None:
            return self.at_step(1)  # the mean is released before any step: charged as if one had been made
        if step != self.steps and self.votes_ratio is not None:
            none = {"votes_ratio": None, "rounds": 1, "choice_epsilon": 0.0, "readers": 1}
            early = type(self)(**{**dict(self), **none, "reader_ratio": None, "reader_steps": 0})
            return early.at_step(step)
        return super().at_step(step)

    def _std(self, ratio: float | None) -> float | None:
        """Noise std in units of the sensitivity; None: nothing is released."""
        return None if ratio is None else ratio * self.closed()[1]

    @property
    def releases(self) -> tuple[Release, ...]:
        """In the order in which they are made; the mean comes before the steps."""
        made = (
            (MEAN, self._std(self.mean_ratio), 1),
            *self.rounds * [(BUCKETS, self._std(self.votes_ratio), 1)],
            (READER, self.choice_epsilon or None, 1),
            (LEARNT, self._std(self.reader_ratio), self.reader_steps),
        )
        return tuple(
            Release(kind=kind, noise=noise, sensitivity=1.0, count=count, **(self.weighted if kind == BUCKETS else {}))
            for kind, noise, count in made
            if noise is not None
        )

    @property
    def _released(self) -> list[str]:
        """`releases` in words."""
        mean, voted, learnt = map(self._std, (self.mean_ratio, self.votes_ratio, self.reader_ratio))
        often = f" of {self.rounds} rounds, each" if self.rounds > 1 else ""
        how = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in self.weighted.items())
        made: tuple[tuple[float | None, str], ...] = (
            (mean, f"mean of all rows of norm 1, noise std {mean or 0:.6g}"),
            (voted, f"buckets of votes{often}, noise std {voted or 0:.6g} B, {how}"),
            (self.choice_epsilon, f"one of {self.readers} readers chosen at epsilon {self.choice_epsilon:.6g}"),
            (
                learnt,
                f"{self.reader_steps} steps of a reader on what training nodes read, each one clipped gradient of "
                f"norm 1, noise std {learnt or 0:.6g}",
            ),
        )
        return [text for noise, text in made if noise]

    @property
    def weighted(self) -> dict[str, Any]:
        """How votes weigh, as fields of a release."""
        return {"mass": self.mass, "degree_floor": self.degree_floor}

    @property
    def _stated(self) -> Statement:
        return named_votes.private_votes.statement.filled({"q": f"{self.sampling_rate:.6g}"})


class BoundedVotes(PoissonVotes):
    """`PoissonVotes` under node-remove, where a public schema bounds all lists by D ids; edges in both lists count.

    Votes weigh g(d) = (1 + kappa (1 - 2 sqrt(d / D))) / sqrt(D), nobody votes for itself, and a node reads its own
    bucket alone: no list, no degree. Removing a node with all its edges moves all other buckets by at most B (Theorem
    R1, docs/privacy.md, 12.6). The composition is that of `PoissonVotes`.
    """

    relation: ClassVar[Relation] = BOUNDED_VOTES.relation
    several_rounds: ClassVar[bool] = False
    says: ClassVar[Statement] = BOUNDED_VOTES

    kind: Literal["bounded-votes"] = "bounded-votes"  # type: ignore[assignment]
    degree_floor: Count = 1
    degree_bound: Count = Field(description="D, public: no list is longer, by a schema and not by looking")
    taper: float = Field(description="kappa, public: 0: all votes weigh the same, 1: short lists up to twice as much")

    @model_validator(mode="after")
    def _bounded(self) -> BoundedVotes:
        if not 0 <= self.taper <= 1:
            raise invalid("taper", self.taper, "a number in [0, 1]")
        if self.degree_floor != 1:
            raise invalid("degree_floor", self.degree_floor, "1 under a degree bound")
        return self

    @property
    def weighted(self) -> dict[str, Any]:
        return {"mass": self.mass, "list_cap": self.degree_bound, "taper": self.taper}

    @property
    def _stated(self) -> Statement:
        return self.says.filled({"q": f"{self.sampling_rate:.6g}", "D": self.degree_bound})

    def beside(self) -> tuple[Guarantee, ...]:
        """The same run when an edge goes; no utility reads a list, so that the choice moves with the buckets only."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        moved = bounded_edge_votes(degree_bound=self.degree_bound, taper=self.taper)
        epsilon = gaussian_epsilon(mu=moved * self._mu(self.votes_ratio), delta=self.delta)
        stated = replace(self._stated, relation=Relation.EDGE)
        return (self._proved(stated, epsilon, scope=self.inference.scope),)


class CappedVotes(PoissonVotes):
    """`PoissonVotes` under node-remove, one way: training nodes vote, all others receive (Theorem R).

    d_w counts receivers whose edge to the voter w is in both ends' lists. (a) Optional: receivers whose number of
    voters + N(0, T_0 / mu_a^2) exceeds H receive nothing. (b) K_w = max(d_w + N(0, sigma^2) + 1 + z sigma, m), sigma =
    sqrt(T) / mu_d. (c) Votes weigh 1 / sqrt(max(d_w, K_w)); a receiver reads its own bucket alone. T_0 is the most
    receivers of a voter, T the most voters of a receiver: numbers of ids or a schema's bound; after (a) T is at most H
    + z_a sqrt(T_0) / mu_a, which a receiver that is no hub exceeds with probability UNLIKELY delta.

    A voter that leaves moves training, (a) and (c); a receiver (b) and, by S B, (c). So epsilon is the larger of two.
    """

    relation: ClassVar[Relation] = named_votes.capped_votes.statement.relation
    several_rounds: ClassVar[bool] = False
    says: ClassVar[Statement] = named_votes.capped_votes.statement

    kind: Literal["capped-votes"] = "capped-votes"  # type: ignore[assignment]
    degree_bound: Count = Field(description="D, public: most edges of a node")
    by_schema: bool = Field(description="Whether D is a schema's bound, and not the number of other ids")
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
        """Of what a voter moves after the last step: its votes, and who is a hub."""
        return 0.0 if self.votes_ratio is None else math.hypot(self._mu(self.votes_ratio), self._mu(self.hubs_ratio))

    @property
    def received_mu(self) -> float:
        """Of what a receiver moves: voters' degrees, and the votes of those above their caps."""
        if self.votes_ratio is None:
            return 0.0
        return math.hypot(self._mu(self.degrees_ratio), self.moved_by_receivers * self._mu(self.votes_ratio))

    @property
    def delta_left(self) -> float:
        """What of delta the composition may use for a receiver, which all unlikely events are about."""
        if self.votes_ratio is None:
            return self.delta
        return self.delta * (1 - UNLIKELY * (1 if self.hubs_ratio is None else 2))

    @property
    def most_sent(self) -> int:
        """T_0: receivers of a voter."""
        return max(1, min(self.degree_bound, (self.num_protected or self.num_roots) - self.num_roots))

    @property
    def hubs_noise(self) -> float | None:
        """Noise std of the numbers of voters in stage (a)."""
        return None if self.hubs_ratio is None else math.sqrt(self.most_sent) / self._mu(self.hubs_ratio)

    @property
    def most_edges(self) -> int:
        """T: voters of a receiver that is no hub, but for a probability of UNLIKELY delta."""
        most = min(self.degree_bound, self.num_roots)
        if self.hubs_noise is None or self.hub_limit is None:
            return most
        failure = UNLIKELY * self.delta
        return most_voters(hub_limit=self.hub_limit, hubs_noise=self.hubs_noise, failure=failure, most=most)

    @property
    def degrees_noise(self) -> float:
        """sigma"""
        return math.sqrt(self.most_edges) / self._mu(self.degrees_ratio)

    @property
    def moved_by_receivers(self) -> float:
        """S: by how much a receiver that leaves moves the buckets, in B."""
        return capped_votes(
            degree_bound=self.most_edges,
            margin=self.margin,
            degree_floor=self.degree_floor,
            failure=UNLIKELY * self.delta,
        )

    def _epsilon_under(self, relation: VotesRelation) -> float:
        from dpgraph.families.votes.epsilon import released_epsilon

        mu = math.hypot(self.mean_mu, self.received_mu)
        receiver = released_epsilon(mu=mu, choice=self.choice_epsilon, delta=self.delta_left)
        return max(super()._epsilon_under(relation), receiver)

    def rdp(self, orders: Orders) -> np.ndarray:
        raise UserError(f"mechanism={self.kind}: unlikely events are charged to delta: no Renyi divergence is stated")

    def beside(self) -> tuple[Guarantee, ...]:
        """Nothing is stated of other relations."""
        return ()

    @property
    def releases(self) -> tuple[Release, ...]:
        """Hubs and degrees before the votes, which read them."""
        found = list(super().releases)
        if self.votes_ratio is None:
            return tuple(found)
        place = [one.kind for one in found].index(BUCKETS)
        return (*found[:place], *self.before_votes, *found[place:])

    @property
    def before_votes(self) -> tuple[Release, ...]:
        root = math.sqrt(self.most_edges)
        degrees = Release(kind=DEGREES, noise=self.degrees_noise, sensitivity=root, count=1, margin=self.margin)
        if self.hubs_noise is None:
            return (degrees,)
        root = math.sqrt(self.most_sent)
        hubs = Release(kind=HUBS, noise=self.hubs_noise, sensitivity=root, count=1, limit=self.hub_limit)
        return hubs, degrees

    @property
    def _stated(self) -> Statement:
        why = "a public schema" if self.by_schema else "all other ids"
        unlikely = f"{round(1 - self.delta_left / self.delta, 3):g}"
        moved = 0.0 if self.votes_ratio is None else self.moved_by_receivers
        values = {"q": f"{self.sampling_rate:.6g}", "T0": self.degree_bound, "S": f"{moved:.4g}"}
        return self.says.filled({**values, "why": why, "failure": unlikely})
