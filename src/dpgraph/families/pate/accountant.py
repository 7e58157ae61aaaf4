"""Confident-GNMax of PATE (Zhang 2021, chapter 3): noise std sigma_threshold per check, sigma_votes per answer."""

from __future__ import annotations

import math
from typing import Annotated

from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

Checks = Annotated[int, par.count("threshold checks; rigorous: their enforced public cap", least=0)]
Answers = Annotated[int, par.count("answered queries; rigorous: their enforced public cap", least=0)]
CheckNoise = Annotated[float, par.noise("noise std of a check")]
VoteNoise = Annotated[float, par.noise("noise std of an answer")]
NAME = "pate_confident_gnmax"


@accountant(
    "published",
    Statement(method="Proposition 2", relation=Relation.VOTE, sampling="none",
              assumptions=("charges the realised number of answers, which is private",)),
    name=NAME, noise="sigma_votes", steps="answers",
    references=(reference(12.5130435, 1e-6, "Proposition 2 by hand", checks=10_000, answers=3000, sigma_threshold=200,
                          sigma_votes=40),),
)  # fmt: skip
def published_epsilon(
    *, checks: Checks, answers: Answers, sigma_threshold: CheckNoise, sigma_votes: VoteNoise, delta: float
) -> float:
    """Return epsilon by Proposition 2 of the thesis: a + 2 sqrt(a ln(1/delta)).

    Here a = checks / (2 sigma_1^2) + answers / sigma_2^2, with sigma_1 the noise of a check and sigma_2 of an answer.
    """
    cost = checks / (2 * sigma_threshold**2) + answers / sigma_votes**2
    return cost + 2 * math.sqrt(cost * math.log(1 / delta))


@accountant(
    "rigorous",
    Statement(method="Gaussian DP of capped checks and answers", relation=Relation.VOTE, sampling="none",
              assumptions=("public caps on checks and answers stop the run",)),
    name=NAME, noise="sigma_votes", steps="answers",
    references=(reference(4.0774337, 1e-5, "root of the closed form by bisection", checks=10_000, answers=2200,
                          sigma_threshold=150, sigma_votes=100),),
)  # fmt: skip
def capped_epsilon(
    *, checks: Checks, answers: Answers, sigma_threshold: CheckNoise, sigma_votes: VoteNoise, delta: float
) -> float:
    """Return the exact epsilon of checks and answers whose numbers have public caps (Theorem 26).

    A record moves one vote, so a check has sensitivity 1 and an answer sqrt(2): mu^2 = checks / sigma_1^2 + 2 answers /
    sigma_2^2 (docs/privacy/pate.md).
    """
    from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

    return gaussian_epsilon(mu=math.sqrt(checks / sigma_threshold**2 + 2 * answers / sigma_votes**2), delta=delta)
