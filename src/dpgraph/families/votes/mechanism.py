"""Mechanism of DP-Votes under node-null, and the public readers that a choice is made among (docs/privacy/votes.md).

Nodes train on their own records, vote into the buckets of the nodes they list, and read buckets. Theorem 11 accounts
for all of it. `noise_multiplier` is the noise std of the steps over the clip norm; the noise of every release is a
public multiple of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees.records import PoissonLots
from dpgraph.families.votes.accountant import private_votes
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


@dataclass(frozen=True)
class BucketReader:
    """A public rule by which a node reads buckets."""

    shrinkage: float  # kappa: a bucket of mass m counts m / (m^2 + (kappa noise std)^2)
    strength: float  # beta: weight of the reading, times 1 / sqrt(d + 1); 0: own prediction alone


# readers that a choice is made among; `dpgraph fit` takes the first one where there is no choice
READERS = tuple(
    BucketReader(shrinkage, strength)
    for shrinkage, strength in ((1.0, 2.0), (1.0, 8.0), (3.0, 2.0), (3.0, 4.0), (3.0, 8.0), (3.0, 16.0), (1.0, 0.0))
)
# the same for buckets in units of their noise, which need no shrinkage
NOISE_READERS = tuple(BucketReader(0.0, strength) for strength in (1.0, 0.5, 1.5, 2.0, 3.0, 0.0))


class PoissonVotes(PoissonLots):
    """A noisy mean of the rows, noisy steps on own records, noisy votes and a choice, composed adaptively (Theorem 11).

    Under node-null, one record moves the mean by 1 (rows have norm 1), a step by C and the buckets by B. It moves all
    utilities of the choice by at most 1 in one direction, so that drawing with odds exp(choice_epsilon * utility) is
    choice_epsilon-DP. Steps in which a reader is learnt are further Gaussian releases (Theorem 17).

    Guarantee: node-null (epsilon, delta)-DP, scope joint: the view of everybody else.
    """

    relation: ClassVar[Relation] = private_votes.statement.relation
    counted: ClassVar[Counted] = Counted.EVERYBODY
    release_streams: ClassVar[Mapping[str, tuple[str, int | None]]] = {HUBS: ("degrees", 1), DEGREES: ("degrees", 1)}
    several_rounds: ClassVar[bool] = True  # a proof covers more than one round

    prepared: ClassVar[str] = "dpgraph.families.votes.prepared:PreparedVotes"
    kind: Literal["poisson-votes"] = "poisson-votes"  # type: ignore[assignment]
    mean_ratio: Noise | None = Field(description="Noise std of the mean / noise multiplier; None: no mean is released")
    votes_ratio: Noise | None = Field(description="Noise std of votes / (B noise multiplier); None: no votes")
    rounds: int = Field(default=1, description="Releases of buckets, each with that noise")
    mass: float = Field(description="a, public: what a vote adds to the coordinate that counts voters")
    degree_floor: Count = Field(description="m, public: votes weigh 1 / sqrt(max(d + 1, m))")
    choice_epsilon: NotNegative = Field(default=0.0, description="Epsilon of the choice among `readers`; 0: no choice")
    readers: int = Field(default=1, description="Number of readers that a choice is made among, public")
    reader_ratio: Noise | None = None
    """Noise std of a step of the reader / (its clip norm, noise multiplier); None: none"""
    reader_steps: int = Field(default=0, description="T_r: steps in which a reader is learnt, with that noise")

    @model_validator(mode="after")
    def _votes(self) -> PoissonVotes:
        if not 0 < self.mass < math.inf:
            raise invalid("mass", self.mass, "a finite number > 0")
        if (self.choice_epsilon > 0) != (self.readers > 1) or self.readers < 1:
            raise invalid("readers", self.readers, "an integer > 1 exactly with choice_epsilon > 0, else 1")
        if self.rounds < 1 or (self.rounds > 1 and (self.votes_ratio is None or not self.several_rounds)):
            raise invalid("rounds", self.rounds, "an integer >= 1, and 1 without votes or under node-remove")
        if self.choice_epsilon and self.votes_ratio is None:
            raise invalid("choice_epsilon", self.choice_epsilon, "0 without votes, which leave no reader to choose")
        if (self.reader_steps > 0) != (self.reader_ratio is not None) or self.reader_steps < 0:
            raise invalid("reader_steps", self.reader_steps, "an integer > 0 exactly with reader_ratio, else 0")
        if self.reader_steps and not self.learns:
            raise invalid("reader_steps", self.reader_steps, "0 without votes, in several rounds or under node-remove")
        return self

    @property
    def learns(self) -> bool:
        """True where Theorem 17 proves that a reader may be learnt: node-null, one round of votes."""
        return self.relation is Relation.NODE_NULL and self.rounds == 1 and self.votes_ratio is not None

    def _mu(self, ratio: float | None) -> float:
        """Return the mu of a release with noise std `ratio` noise multipliers per unit of sensitivity; 0 for None."""
        return 0.0 if ratio is None else 1 / (ratio * self.closed()[1])

    @property
    def mean_mu(self) -> float:
        """The mu of the mean of the rows; 0 if it is not released."""
        return self._mu(self.mean_ratio)

    @property
    def release_mu(self) -> float:
        """The mu of all Gaussian releases together, steps left out."""
        return math.hypot(self.mean_mu, self.votes_mu, self.reader_mu)

    @property
    def reader_mu(self) -> float:
        """The mu of all steps of the learnt reader together; 0 if none is learnt."""
        return math.sqrt(self.reader_steps) * self._mu(self.reader_ratio)

    @property
    def votes_mu(self) -> float:
        """The mu of the buckets of all rounds, with all that is released on their account."""
        return math.sqrt(self.rounds) * self._mu(self.votes_ratio)

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of all parts at `orders`."""
        from dpgraph.privacy.accountants.composition import PureDp

        steps = super().rdp(orders)
        return steps + PureDp(self.choice_epsilon).rdp(orders) if self.choice_epsilon else steps

    def fixed_epsilon(self, mode: Mode) -> float:
        """Return an upper bound on the epsilon of the choice alone; no noise reduces it."""
        return self.choice_epsilon if mode == "rigorous" else 0.0

    def rigorous(self) -> Guarantee:
        """Return the node-null guarantee of Theorem 11, or of Theorem 17 where a reader is learnt."""
        return self._proved(self._stated, self._epsilon_under("node-null"), *self._released)

    def published(self) -> Guarantee:
        """Return no guarantee: no paper has published this mechanism."""
        return self._none("published", "no paper has published this mechanism", "Poisson")

    def beside(self) -> tuple[Guarantee, ...]:
        """Return the guarantees of the same run for a replaced record and for an edge in both ends' lists.

        With several rounds no guarantee is stated for an edge: votes of a later round read lists, and Theorem 13 bounds
        weights alone.
        """
        both_ends = "both ends' lists name each other; two utilities move, in either direction"
        both_ends += f", and in each of {self.reader_steps} steps two gradients" if self.reader_steps else ""
        replaced, edge = (replace(self._stated, relation=one) for one in (Relation.RECORD_REPLACE, Relation.EDGE))
        records = self._proved(replaced, self._epsilon_under("record-replace"))
        if self.rounds > 1:
            return (records,)
        return records, self._proved(edge, self._epsilon_under("edge"), both_ends)

    def _epsilon_under(self, relation: VotesRelation) -> float:
        """Return the epsilon of the whole run under `relation`."""
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
        """Return the statement after `step` steps.

        Votes, choice and learnt reader come after the last step, so earlier points are not charged for them.
        """
        if step == 0 and self.mean_ratio is not None:
            return self.at_step(1)  # the mean is released before any step and charged with the first
        if step != self.steps and self.votes_ratio is not None:
            none = {"votes_ratio": None, "rounds": 1, "choice_epsilon": 0.0, "readers": 1}
            early = type(self)(**{**dict(self), **none, "reader_ratio": None, "reader_steps": 0})
            return early.at_step(step)
        return super().at_step(step)

    def _std(self, ratio: float | None) -> float | None:
        """Return the noise std in units of the sensitivity; None if there is no such release."""
        return None if ratio is None else ratio * self.closed()[1]

    @property
    def releases(self) -> tuple[Release, ...]:
        """Releases in the order in which they are made; the mean comes before the steps."""
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
        """The releases in words."""
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
        """Fields of a release that say how much a vote weighs."""
        return {"mass": self.mass, "degree_floor": self.degree_floor}

    @property
    def _stated(self) -> Statement:
        return private_votes.statement.filled({"q": f"{self.sampling_rate:.6g}"})


def poisson_votes(request: MechanismRequest) -> PoissonVotes:
    """Build the mechanism of variant `rigorous`; rounds share the budget of votes alike."""
    fields, rounds = votes_fields(request, (request.privacy.reader_share,)), request.privacy.rounds
    if fields["votes_ratio"] is not None:  # each round has an equal part of their share of mu^2
        fields["votes_ratio"] *= math.sqrt(rounds)
    return PoissonVotes(**fields, **_learnt(request), degree_floor=request.privacy.degree_floor, rounds=rounds)


def _learnt(request: MechanismRequest) -> dict[str, Any]:
    """Return the fields of a learnt reader: its steps share the reader's part of mu^2 alike."""
    share, steps = request.privacy.reader_share, request.privacy.reader_steps
    ratio = share_ratio(request, share, (share,))
    return {} if ratio is None else {"reader_ratio": ratio * math.sqrt(steps), "reader_steps": steps}


def share_ratio(request: MechanismRequest, share: float | None, others: tuple[float, ...]) -> float | None:
    """Return the noise std of a release with this share of mu^2, in noise multipliers per unit of sensitivity.

    Args:
        request: The cell and its public counts.
        share: Share of the squared mu of the whole run; None or 0 for no release.
        others: Shares of further releases, which training does not get either.

    Returns:
        The ratio, or None without a share. Raises UserError if the number of steps is open.
    """
    privacy, steps = request.privacy, request.steps
    if steps is None:
        raise invalid("steps", "max", "a number: shares of the budget are shares of that many steps")
    rest = 1 - privacy.mean_share - privacy.votes_share - sum(others)
    return math.sqrt(rest / share / steps) / request.rate if share else None


def votes_fields(
    request: MechanismRequest, shares: tuple[float, ...] = (), readers: int = len(READERS)
) -> dict[str, Any]:
    """Return the fields that all mechanisms of votes have.

    The squares of mu of mean, votes and steps are as their shares. T steps at rate q count q^2 T / s^2, which is exact
    for full batches. For smaller ones it only divides the noise: the accountant composes what ran.

    Args:
        request: The cell and its public counts.
        shares: Shares of further releases than mean and votes.
        readers: Number of readers that a choice is made among.
    """
    privacy = request.privacy
    choice, epsilon = privacy.choice_epsilon, privacy.epsilon
    if choice is not None and epsilon is not None and choice >= epsilon:
        raise invalid("choice_epsilon", choice, f"a number < epsilon = {epsilon:g}, of which it is a part")
    return {
        **request.common(request.num_train),
        "sampling_rate": request.rate,
        "mean_ratio": share_ratio(request, privacy.mean_share, shares),
        "votes_ratio": share_ratio(request, privacy.votes_share, shares),
        "mass": privacy.vote_mass,
        "choice_epsilon": choice or 0.0,
        "readers": readers if choice else 1,
    }
