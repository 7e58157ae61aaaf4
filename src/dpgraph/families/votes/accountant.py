"""Accountants of DP-Votes by name: Theorem 11 under node-null, Theorem 15 under node-remove (docs/privacy/votes.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any

from dpgraph.config.cell import LARGE
from dpgraph.core.errors import invalid
from dpgraph.families.votes.sensitivity import UNLIKELY, VotesRelation
from dpgraph.families.votes.sensitivity import capped_receiver_votes as moved_by_receivers
from dpgraph.families.votes.sensitivity import most_voters as fewest_voters
from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.privacy.statements import PUBLIC, Statement

OverNorm = Annotated[float, par.noise("noise std of the buckets / B, B the largest norm of a vote")]
MeanNoise = Annotated[float, par.noise("noise std of the sum of rows of norm 1 (default: it is not released)")]
Choice = Annotated[float, par.price(
    "price of a choice by the exponential mechanism, monotone utilities of sensitivity 1", least=0)]  # fmt: skip
Mass = Annotated[float, par.Parameter("a: what a vote adds to the coordinate that counts voters", above=0, most=1000)]
ReaderNoise = Annotated[float, par.noise(
    "noise std of a step of the reader, whose gradients have norm 1 (default: none is learnt)")]  # fmt: skip
ReaderSteps = Annotated[int, par.count("T_r: steps in which a reader of votes is learnt", most=par.MOST_STEPS)]
Margin = Annotated[float, par.Parameter(
    "z: a cap is the noisy degree plus z standard deviations of its noise", least=0, most=100)]  # fmt: skip
HubsNoise = Annotated[float, par.noise(
    "noise std of receivers' numbers of voters, by which hubs are found (default: they are not)")]  # fmt: skip
HubLimit = Annotated[float, par.Parameter(
    "H: receivers of a larger noisy number of voters receive nothing", least=1, most=LARGE)]  # fmt: skip
DegreeFloor = Annotated[int, par.count("m: votes weigh 1 / sqrt(max(d + 1, m))")]
_RUN: dict[str, Any] = {"q": 1, "noise_multiplier": 20, "steps": 40, "sigma_votes_over_norm": 6, "sigma_mean": 30}
_FORMULA = "Theorem 15's formula in 40 digits, with a binomial quantile of its own"


@accountant(
    "rigorous",
    Statement(method="Poisson-subsampled Gaussian steps, Gaussian releases and a choice, privacy loss distribution",
              relation=Relation.NODE_NULL, sampling="Poisson, rate {q}",
              assumptions=("a gradient and a row of the mean read one record each",
                           "a vote reads one record, and all votes of a record move the buckets by at most B, whatever "
                           "its degree",
                           "noise, batches and the choice are drawn in secret",
                           "a node's own prediction reads its own record: nothing is said of publishing it"),
              not_covered=(PUBLIC,), scope=Scope.JOINT),
    premises=par.SGD, noise="noise_multiplier", rate="q",
    relations=("votes_relation", {"node-null": Relation.NODE_NULL, "record-replace": Relation.RECORD_REPLACE,
                                  "edge": Relation.EDGE}),
    references=(reference(1.527, 1e-5, "privacy-loss distribution by FFT, grid 1e-4", tolerance=3e-3, **_RUN,
                          eps_choice=0.2, mass=0.3, degree_floor=8),),
)  # fmt: skip
def private_votes(
    *, q: par.Rate, noise_multiplier: par.NoiseMultiplier, steps: par.Steps, sigma_votes_over_norm: OverNorm,
    mass: Mass, degree_floor: DegreeFloor, eps_choice: Choice, delta: float, sigma_mean: MeanNoise | None = None,
    votes_relation: Annotated[VotesRelation, par.Parameter("adjacency")] = "node-null",
    sigma_reader: ReaderNoise | None = None, reader_steps: ReaderSteps | None = None,
) -> float:  # fmt: skip
    """Return the epsilon of DP-Votes by Theorem 11, and by Theorem 17 where a reader is learnt.

    `votes_relation` selects node-null, a replaced record or an edge: docs/privacy/votes.md.
    """
    from dpgraph.families.votes.epsilon import votes_epsilon

    if (sigma_reader is None) != (reader_steps is None):
        raise invalid("reader_steps", reader_steps, "a number exactly with sigma_reader")
    return votes_epsilon(
        rate=q, noise_multiplier=noise_multiplier, steps=steps, mean_mu=1 / sigma_mean if sigma_mean else 0.0,
        votes_mu=1 / sigma_votes_over_norm, reader_mu=math.sqrt(reader_steps or 0) / (sigma_reader or 1.0),
        choice_epsilon=eps_choice, mass=mass, degree_floor=degree_floor, delta=delta, relation=votes_relation,
    )  # fmt: skip


@accountant(
    "rigorous",
    replace(private_votes.statement, relation=Relation.NODE_REMOVE, assumptions=(
        "edges count that are in both ends' lists; a node has at most {T0} of them: {why}",
        "a gradient and a row of the mean read one record each",
        "a vote reads one record; a node reads its own bucket of votes, and no list",
        "training nodes vote and others receive, by a public split; epsilon is the larger one of both sides'",
        "noisy degrees of voters are released; given them, a receiver that leaves moves votes by at most {S} B, but "
        "for {failure} of delta", *private_votes.statement.assumptions[2:],
    )),
    premises=par.SGD, noise="noise_multiplier", rate="q",
    references=(reference(2.00906, 1e-5, _FORMULA, tolerance=3e-3, **_RUN, eps_choice=0.2, degree_floor=64,
                          cap_margin=1.5, most_voters=2000, most_receivers=900, sigma_degrees=111.803398875),),
)  # fmt: skip
def capped_votes(
    *, q: par.Rate, noise_multiplier: par.NoiseMultiplier, steps: par.Steps, sigma_votes_over_norm: OverNorm,
    sigma_degrees: Annotated[float, par.noise("noise std of voters' degrees")],
    cap_margin: Margin, degree_floor: DegreeFloor, most_voters: Annotated[int, par.count("T_r: voters of a receiver")],
    most_receivers: Annotated[int, par.count("T_0: receivers of a voter")], eps_choice: Choice, delta: float,
    sigma_mean: MeanNoise | None = None, sigma_hubs: HubsNoise | None = None, hub_limit: HubLimit | None = None,
) -> float:  # fmt: skip
    """Return the epsilon of DP-Votes with noisy caps by Theorem 15: docs/privacy/votes.md#theorem-15.

    It is the larger one of a voter's and a receiver's side.
    """
    from dpgraph.families.votes.epsilon import released_epsilon, votes_epsilon

    failure, most, flags, failures = UNLIKELY * delta, most_voters, 0.0, 1
    if (sigma_hubs is None) != (hub_limit is None):
        raise invalid("hub_limit", hub_limit, "a number exactly with sigma_hubs")
    if sigma_hubs is not None and hub_limit is not None:
        most = fewest_voters(hub_limit=hub_limit, hubs_noise=sigma_hubs, failure=failure, most=most)
        flags, failures = math.sqrt(most_receivers) / sigma_hubs, 2
    mean, votes = 1 / sigma_mean if sigma_mean else 0.0, 1 / sigma_votes_over_norm
    sent = votes_epsilon(
        rate=q, noise_multiplier=noise_multiplier, steps=steps, mean_mu=mean, votes_mu=math.hypot(votes, flags),
        choice_epsilon=eps_choice, mass=1.0, degree_floor=degree_floor, delta=delta,
    )  # fmt: skip
    above = moved_by_receivers(degree_bound=most, margin=cap_margin, degree_floor=degree_floor, failure=failure)
    mu = math.hypot(mean, math.sqrt(most) / sigma_degrees, float(above) * votes)
    return max(sent, released_epsilon(mu=mu, choice=eps_choice, delta=delta - failure * failures))
