"""Training on own records, votes of every node to the nodes it lists, and a choice among readers (docs/privacy.md, 13).

`noise_multiplier` is noise std / clip norm of the steps; the noise of the releases is a public multiple of it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from dpgraph.errors import invalid
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement
from dpgraph.privacy.mechanisms.base import NOISE_RANGE
from dpgraph.privacy.mechanisms.lots import PoissonLots
from dpgraph.privacy.procedure import Release
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import VOTES, Statement

if TYPE_CHECKING:
    import numpy as np

    from dpgraph.privacy.accountants.renyi import Orders

MEAN, BUCKETS, READER = "mean of the rows", "votes", "choice of the reader"
FEWEST_CLASSES = 2  # bounds that depend on the number of classes are taken where they are largest


def vote_norm(*, num_classes: int, mass: float) -> float:
    """B = sqrt(1 - 1 / C + a^2): the largest norm of a vote (l - 1 / C, a), l a probability vector of C classes."""
    return math.sqrt(1 - 1 / num_classes + mass**2)


def opposed(mass: float) -> float:
    """-<V, V'> / B^2 of the most opposed two votes, max(0, 1 / C - a^2) / B^2, where it is largest: for two classes."""
    return max(0.0, 1 / FEWEST_CLASSES - mass**2) / vote_norm(num_classes=FEWEST_CLASSES, mass=mass) ** 2


def replaced_votes(mass: float) -> float:
    """Sensitivity of the buckets, in B, to a record that is replaced by any other."""
    return math.sqrt(2 * (1 + opposed(mass)))


def edge_votes(*, mass: float, degree_floor: int) -> float:
    """Sensitivity of the buckets, in B, to an edge that is in both ends' lists (docs/privacy.md, 13.3)."""
    floor, apart = degree_floor, opposed(mass)
    weight = 1 / math.sqrt(floor + 1)  # of a list of `floor` ids, the shortest that the floor does not reach
    less = 1 / math.sqrt(floor) - weight
    moved = 2 - 2 * math.sqrt(floor / (floor + 1))
    cases = [2 * (moved + 2 * apart * weight * less)]
    if floor > 1:  # lists that the floor reaches: of both ends, or of one of them
        cases += [2 / floor, 1 / floor + moved + 2 * apart * less / math.sqrt(floor)]
    return math.sqrt(max(cases))


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
        return self._proved(self._stated, self._composed(1.0, self.release_mu, self.choice_epsilon), *released)

    def published(self) -> Guarantee:
        return self._none("published", "no paper has published this mechanism", "Poisson")

    def beside(self) -> tuple[Guarantee, ...]:
        """The same run when a record is replaced by any other, and when an edge goes that is in both ends' lists."""
        voted, mean = self._mu(self.votes_ratio), self._mu(self.mean_ratio)
        replaced = self._composed(
            2.0, math.hypot(2 * mean, replaced_votes(self.mass) * voted), 2 * self.choice_epsilon
        )
        edge = self._composed(
            0.0, edge_votes(mass=self.mass, degree_floor=self.degree_floor) * voted, 4 * self.choice_epsilon
        )
        both_ends = "both ends' lists name each other; two utilities move, in either direction"
        return (
            self._proved(replace(self._stated, relation=Relation.RECORD_REPLACE), replaced),
            self._proved(replace(self._stated, relation=Relation.EDGE), edge, both_ends),
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
            votes = {"mass": self.mass, "degree_floor": self.degree_floor}
            found.append(
                Release(kind=BUCKETS, noise=1 / self._mu(self.votes_ratio), sensitivity=1.0, count=1, **votes)
            )
        if self.choice_epsilon:
            found.append(Release(kind=READER, noise=self.choice_epsilon, sensitivity=1.0, count=1))
        return tuple(found)

    @property
    def _stated(self) -> Statement:
        return VOTES.filled({"q": f"{self.sampling_rate:.6g}"})

    def _texts(self) -> tuple[tuple[float | None, str], ...]:
        mean, voted = (ratio and ratio * self.closed()[1] for ratio in (self.mean_ratio, self.votes_ratio))
        return (
            (mean, f"mean of all rows of norm 1, noise std {mean or 0:.6g}"),
            (voted, f"buckets of votes, noise std {voted or 0:.6g} B, degree floor {self.degree_floor}"),
            (self.choice_epsilon, f"one of {self.readers} readers chosen at epsilon {self.choice_epsilon:.6g}"),
        )

    def _composed(self, moved: float, mu: float, choice: float) -> float:
        """Epsilon of the steps, where a record moves a sum by `moved` C (2: it is replaced, 0: it stays), a Gaussian
        mechanism of `mu`, and a choice."""
        from dpgraph.privacy.accountants.composition import Together, composed_epsilon, gaussian_pair
        from dpgraph.privacy.accountants.double_mixture import affected_roots_pair
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
        from dpgraph.privacy.accountants.quantile import PureDp

        steps, noise = self.closed()
        pure = (PureDp(choice),) if choice else ()
        if moved and self.sampling_rate < 1:
            gaussian = (gaussian_pair(mu),) if mu else ()
            once = (*gaussian, *pure)
            return composed_epsilon(
                affected_roots_pair(
                    affected_roots=1, rate=self.sampling_rate, noise_std=noise, own_root_removed=moved == 1
                ),
                steps=steps,
                delta=self.delta,
                once=Together(once) if len(once) > 1 else once[0] if once else None,
            )
        mu = math.hypot(moved * math.sqrt(steps) / noise, mu)
        if not mu:
            return choice
        if not choice:
            return gaussian_epsilon(mu=mu, delta=self.delta)
        return composed_epsilon(gaussian_pair(mu), steps=1, delta=self.delta, once=pure[0])
