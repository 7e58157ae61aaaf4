"""Training on own records, votes of every node to the nodes it lists, and a choice among readers (docs/privacy.md, 12).

`noise_multiplier` is noise std / clip norm of the steps; the noise of the releases is a public multiple of it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from dpgraph.errors import invalid
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement
from dpgraph.privacy.mechanisms.base import NOISE_RANGE
from dpgraph.privacy.mechanisms.lots import PoissonLots
from dpgraph.privacy.procedure import Release
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import BOUNDED_VOTES, VOTES, Statement
from dpgraph.privacy.vote_sensitivity import bounded_edge_votes

if TYPE_CHECKING:
    import numpy as np

    from dpgraph.privacy.accountants.renyi import Orders
    from dpgraph.privacy.accountants.votes import VotesRelation

MEAN, BUCKETS, READER = "mean of the rows", "votes", "choice of the reader"


class PoissonVotes(PoissonLots):
    """Noisy mean of the rows, noisy steps on own records, noisy votes, and a choice: composed adaptively.

    Under node-null a record moves each of the first three by its sensitivity 1 (rows of norm 1), C and B, and the
    utilities of the choice by 1 in one direction, which exp(choice_epsilon * utility) makes choice_epsilon-DP.
    """

    relation: ClassVar[Relation] = VOTES.relation

    prepared: ClassVar[str] = "dpgraph.methods.votes.prepared:PreparedVotes"
    kind: Literal["poisson-votes"] = "poisson-votes"  # type: ignore[assignment]
    mean_ratio: float | None = Field(description="Noise std of the mean / noise multiplier; None: no mean is released")
    votes_ratio: float | None = Field(description="Noise std of votes / (B noise multiplier); None: nobody votes")
    mass: float = Field(description="a, public: what a vote adds to the coordinate that counts voters")
    degree_floor: int = Field(description="m, public: votes weigh 1 / sqrt(max(d + 1, m))")
    choice_epsilon: float = Field(default=0.0, description="Of the choice among `readers`; 0: none")
    readers: int = Field(default=1, description="Ways to read that are chosen from, public")

    @model_validator(mode="after")
    def _votes(self) -> PoissonVotes:
        low, high = NOISE_RANGE
        for name, ratio in (("mean_ratio", self.mean_ratio), ("votes_ratio", self.votes_ratio)):
            if ratio is not None and not low <= ratio <= high:
                raise invalid(name, ratio, f"a number from {low:g} to {high:g}")
        if not 0 < self.mass < math.inf:
            raise invalid("mass", self.mass, "a finite number > 0")
        if self.degree_floor < 1:
            raise invalid("degree_floor", self.degree_floor, "an integer >= 1")
        if not 0 <= self.choice_epsilon < math.inf:
            raise invalid("choice_epsilon", self.choice_epsilon, "a finite number >= 0")
        if (self.choice_epsilon > 0) != (self.readers > 1) or self.readers < 1:
            raise invalid("readers", self.readers, "an integer > 1 exactly with choice_epsilon > 0, else 1")
        if self.choice_epsilon and self.votes_ratio is None:
            raise invalid("choice_epsilon", self.choice_epsilon, "0 where nobody votes: there is nothing to choose")
        return self

    def _mu(self, ratio: float | None) -> float:
        """mu of a release whose noise std is `ratio` noise multipliers, per unit of sensitivity."""
        return 0.0 if ratio is None else 1 / (ratio * self.closed()[1])

    @property
    def release_mu(self) -> float:
        return math.hypot(self._mu(self.mean_ratio), self._mu(self.votes_ratio))

    def rdp(self, orders: Orders) -> np.ndarray:
        from dpgraph.privacy.accountants.quantile import PureDp

        steps = super().rdp(orders)
        return steps + PureDp(self.choice_epsilon).rdp(orders) if self.choice_epsilon else steps

    def fixed_epsilon(self, mode: Mode) -> float:
        """Of the choice alone, which no noise takes back: a bound."""
        return self.choice_epsilon if mode == "rigorous" else 0.0

    def rigorous(self) -> Guarantee:
        released = [text for ratio, text in self._texts() if ratio]
        return self._proved(self._stated, self._epsilon_under("node-null"), *released)

    def published(self) -> Guarantee:
        return self._none("published", "no paper has published this mechanism", "Poisson")

    def beside(self) -> tuple[Guarantee, ...]:
        """The same run when a record is replaced by any other, and when an edge goes that is in both ends' lists."""
        both_ends = "both ends' lists name each other; two utilities move, in either direction"
        replaced, edge = (replace(self._stated, relation=one) for one in (Relation.RECORD_REPLACE, Relation.EDGE))
        return (
            self._proved(replaced, self._epsilon_under("record-replace")),
            self._proved(edge, self._epsilon_under("edge"), both_ends),
        )

    def _epsilon_under(self, relation: VotesRelation) -> float:
        from dpgraph.privacy.accountants.votes import votes_epsilon

        steps, noise = self.closed()
        return votes_epsilon(
            rate=self.sampling_rate,
            noise_multiplier=noise,
            steps=steps,
            mean_mu=self._mu(self.mean_ratio),
            votes_mu=self._mu(self.votes_ratio),
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
            early = type(self)(**{**dict(self), "votes_ratio": None, "choice_epsilon": 0.0, "readers": 1})
            return early.at_step(step)
        return super().at_step(step)

    @property
    def releases(self) -> tuple[Release, ...]:
        found = []
        if self.mean_ratio is not None:
            found.append(Release(kind=MEAN, noise=1 / self._mu(self.mean_ratio), sensitivity=1.0, count=1))
        if self.votes_ratio is not None:
            noise = 1 / self._mu(self.votes_ratio)
            found.append(Release(kind=BUCKETS, noise=noise, sensitivity=1.0, count=1, **self.weighted))
        if self.choice_epsilon:
            found.append(Release(kind=READER, noise=self.choice_epsilon, sensitivity=1.0, count=1))
        return tuple(found)

    @property
    def weighted(self) -> dict[str, Any]:
        """How votes weigh, as fields of a release."""
        return {"mass": self.mass, "degree_floor": self.degree_floor}

    @property
    def _stated(self) -> Statement:
        return VOTES.filled({"q": f"{self.sampling_rate:.6g}"})

    def _texts(self) -> tuple[tuple[float | None, str], ...]:
        mean, voted = (ratio and ratio * self.closed()[1] for ratio in (self.mean_ratio, self.votes_ratio))
        how = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in self.weighted.items())
        return (
            (mean, f"mean of all rows of norm 1, noise std {mean or 0:.6g}"),
            (voted, f"buckets of votes, noise std {voted or 0:.6g} B, {how}"),
            (self.choice_epsilon, f"one of {self.readers} readers chosen at epsilon {self.choice_epsilon:.6g}"),
        )


class BoundedVotes(PoissonVotes):
    """`PoissonVotes` under node-remove, where a public schema bounds all lists by D ids; edges in both lists count.

    Votes weigh g(d) = (1 + kappa (1 - 2 sqrt(d / D))) / sqrt(D), nobody votes for itself, and a node reads its own
    bucket alone: no list, no degree. Removing a node with all its edges moves all other buckets by at most B (Theorem
    R1, docs/privacy.md, 12.6). The composition is that of `PoissonVotes`.
    """

    relation: ClassVar[Relation] = BOUNDED_VOTES.relation

    kind: Literal["bounded-votes"] = "bounded-votes"  # type: ignore[assignment]
    degree_floor: int = 1
    degree_bound: int = Field(description="D, public: no list is longer, by a schema and not by looking")
    taper: float = Field(description="kappa, public: 0: all votes weigh the same, 1: short lists up to twice as much")

    @model_validator(mode="after")
    def _bounded(self) -> BoundedVotes:
        if self.degree_bound < 1:
            raise invalid("degree_bound", self.degree_bound, "an integer >= 1")
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
        return BOUNDED_VOTES.filled({"q": f"{self.sampling_rate:.6g}", "D": self.degree_bound})

    def beside(self) -> tuple[Guarantee, ...]:
        """The same run when an edge goes; no utility reads a list, so that the choice moves with the buckets only."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        moved = bounded_edge_votes(degree_bound=self.degree_bound, taper=self.taper)
        epsilon = gaussian_epsilon(mu=moved * self._mu(self.votes_ratio), delta=self.delta)
        return (self._proved(replace(self._stated, relation=Relation.EDGE), epsilon),)
