"""Confident-GNMax: labels for public images from the noisy votes of teachers (Papernot et al. 2018; Zhang, chapter 3).

All that reads private records is released before the student's first step. Proofs: docs/privacy/pate.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.pate.accountant import capped_epsilon, published_epsilon
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms.base import Count, NoisySteps
from dpgraph.privacy.procedure import Release
from dpgraph.privacy.public_numbers import DataFact
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement, public

CHECKS, ANSWERS = "largest count of votes", "histogram of votes"
GNMAX = replace(capped_epsilon.statement, relation=Relation.TRAINING_RECORD,
                sampling="none; every record trains one teacher, by a public hash of its id",
                assumptions=("teachers' parts are disjoint: a record moves one vote of each histogram",
                             "at most {M} checks and {M_l} answers, whatever the data: how many were made is private",
                             "the images that are labelled are public, and so are their order and their number",
                             "noise of the votes is drawn in secret"),
                not_covered=(public("teachers' settings, the threshold and the student's"),))  # fmt: skip
GNMAX_NODES = replace(
    GNMAX, relation=Relation.TRAINING_NODE,
    sampling="none; every training node teaches one teacher, by a public shuffle of the ids",
    assumptions=(
        "the validation nodes are public: their features and the edges between them, not their classes",
        "a teacher reads the subgraph of its own part and of the validation nodes: a training node moves one vote of "
        "each histogram, whatever its degree",
        *GNMAX.assumptions[1:2],
        "which validation nodes are labelled, in which order and how many is public",
        *GNMAX.assumptions[3:],
    ),
)  # fmt: skip


class ConfidentGnmax(NoisySteps):
    """At most `max_checks` noisy largest counts and `max_answers` noisy histograms of votes, then T steps at no cost.

    `noise_multiplier` is the noise std on a count of a histogram, in votes; a check has `check_ratio` times as much.
    Teachers have disjoint parts of the N records by public ids. So one record moves one vote of every histogram: the
    largest count by at most 1, the histogram by at most sqrt(2). All checks are one Gaussian mechanism and so, given
    their outcomes, are the answers: mu^2 = max_checks / sigma_1^2 + 2 max_answers / sigma_2^2 (Theorem 26 of
    docs/privacy/pate.md).
    """

    stated: ClassVar[Statement] = GNMAX
    relation = GNMAX.relation
    prepared: ClassVar[str] = "dpgraph.families.pate.prepared:PreparedTeachers"
    steps_cost: ClassVar[bool] = False

    kind: Literal["confident-gnmax", "confident-gnmax-nodes"] = "confident-gnmax"
    max_checks: Count = Field(description="Public cap: the run stops before one more check")
    max_answers: Count = Field(description="Public cap: the run stops before one more answer")
    check_ratio: float = Field(description="sigma_1 / sigma_2, public")

    def _check(self) -> None:
        super()._check()
        if self.max_answers > self.max_checks:
            raise invalid("max_answers", self.max_answers, f"at most max_checks = {self.max_checks}")
        if not 1e-3 <= self.check_ratio <= 1e3:
            raise invalid("check_ratio", self.check_ratio, "a number from 0.001 to 1000")

    def _spent(self) -> dict[str, Any]:
        _, sigma = self.closed()
        return {
            "checks": self.max_checks,
            "answers": self.max_answers,
            "sigma_threshold": self.check_ratio * sigma,
            "sigma_votes": sigma,
            "delta": self.delta,
        }

    @property
    def mu(self) -> float:
        """Return mu of the Gaussian mechanism that all capped checks and answers are together."""
        _, sigma = self.closed()
        return math.sqrt(self.max_checks / self.check_ratio**2 + 2 * self.max_answers) / sigma

    def rdp(self, orders: tuple[float, ...]) -> np.ndarray:
        """Return the Renyi divergences of the release at these orders."""
        return np.asarray(orders) * self.mu**2 / 2

    def published(self) -> Guarantee:
        """Return the guarantee by Proposition 2 of the thesis, which does not depend on the data."""
        return self._stated("Proposition 2, RDP of Confident-GNMax without regard to the data").guarantee(
            "published", epsilon=published_epsilon(**self._spent()), delta=self.delta
        )

    def rigorous(self) -> Guarantee:
        """Return the guarantee by Theorem 26: Gaussian differential privacy of the capped checks and answers."""
        return self._proved(self._stated(self.stated.method), capped_epsilon(**self._spent()))

    def _stated(self, method: str) -> Statement:
        return replace(self.stated.filled({"M": self.max_checks, "M_l": self.max_answers}), method=method)

    @property
    def streams(self) -> dict[str, int | None]:
        """One stream for the noise of checks, then of answers; how many numbers it holds is private."""
        return {"votes of teachers": None}

    @property
    def releases(self) -> tuple[Release, ...]:
        """Return the two releases, checks and answers, at their public caps."""
        sigma = self.closed()[1]
        return (
            Release(kind=CHECKS, noise=self.check_ratio * sigma, sensitivity=1.0, count=self.max_checks),
            Release(kind=ANSWERS, noise=sigma, sensitivity=math.sqrt(2), count=self.max_answers),
        )


class NodeGnmax(ConfidentGnmax):
    """Confident-GNMax whose teachers have parts of the training nodes and label public validation nodes (Theorem 27).

    A teacher reads its part's subgraph and the public nodes, so one training node moves one vote of every histogram.
    """

    stated: ClassVar[Statement] = GNMAX_NODES
    relation = GNMAX_NODES.relation
    prepared: ClassVar[str] = "dpgraph.families.pate.nodes.prepared:PreparedNodeTeachers"
    numbers_from: ClassVar[Mapping[str, DataFact]] = MappingProxyType(
        {**ConfidentGnmax.numbers_from, "queries": DataFact.VALIDATION}
    )

    kind: Literal["confident-gnmax-nodes"] = "confident-gnmax-nodes"


def capped(asked: MechanismRequest) -> dict[str, Any]:
    """Return the fields of a mechanism of PATE, on images or on nodes."""
    if asked.steps is None:
        raise invalid("steps", "max", "a number, since a student's steps are free")
    privacy = asked.privacy
    caps = {name: getattr(privacy, name) for name in ("max_checks", "max_answers", "check_ratio")}
    return {**asked.common(asked.num_train), **caps}


def confident_gnmax(asked: MechanismRequest) -> ConfidentGnmax:
    """Build the mechanism on images: the teachers' records are protected; delta counts all images."""
    return ConfidentGnmax(**capped(asked))


def node_gnmax(asked: MechanismRequest) -> NodeGnmax:
    """Build the mechanism on a graph: the training nodes are protected; delta counts all nodes."""
    return NodeGnmax(**capped(asked))
