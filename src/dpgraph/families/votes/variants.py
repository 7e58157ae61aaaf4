"""The mechanism of votes, from a cell: shares of the budget become ratios of noise."""

from __future__ import annotations

import math
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.votes.mechanism import BoundedVotes, CappedVotes, PoissonVotes
from dpgraph.families.votes.readers import NOISE_READERS, READERS
from dpgraph.families.votes.strangers_mechanism import BoundedStrangerVotes, CappedStrangerVotes


def poisson_votes(asked: MechanismRequest) -> PoissonVotes:
    fields, rounds = _fields(asked, (asked.privacy.reader_share,)), asked.privacy.rounds
    if fields["votes_ratio"] is not None:  # each round has an equal part of their share of mu^2
        fields["votes_ratio"] *= math.sqrt(rounds)
    return PoissonVotes(
        **fields,
        **_learnt(asked),
        degree_floor=asked.privacy.degree_floor,
        rounds=rounds,
    )


def _learnt(asked: MechanismRequest) -> dict[str, Any]:
    """Steps of a reader, which share what it has of mu^2 alike."""
    share, steps = asked.privacy.reader_share, asked.privacy.reader_steps
    ratio = _ratio(asked, share, (share,))
    return {} if ratio is None else {"reader_ratio": ratio * math.sqrt(steps), "reader_steps": steps}


def bounded_votes(asked: MechanismRequest) -> BoundedVotes:
    return BoundedVotes(**_bounded(asked))


def bounded_stranger_votes(asked: MechanismRequest) -> BoundedStrangerVotes:
    return BoundedStrangerVotes(**_bounded(asked))


def _bounded(asked: MechanismRequest) -> dict[str, Any]:
    return {**_fields(asked), "degree_bound": asked.privacy.degree_bound, "taper": asked.privacy.taper}


def capped_votes(asked: MechanismRequest) -> CappedVotes:
    return CappedVotes(**_capped(asked))


def capped_stranger_votes(asked: MechanismRequest) -> CappedStrangerVotes:
    return CappedStrangerVotes(**_capped(asked))


def _capped(asked: MechanismRequest) -> dict[str, Any]:
    privacy = asked.privacy
    ids = asked.counts.num_protected or asked.num_train
    shares = (privacy.hub_share or 0.0,)  # of what voters pay; degrees are for receivers to pay
    return {
        **_fields(asked, shares, len(NOISE_READERS)),
        "degree_floor": privacy.degree_floor,
        "degree_bound": max(ids - 1, 1) if privacy.degree_bound is None else privacy.degree_bound,
        "by_schema": privacy.degree_bound is not None,
        "margin": privacy.cap_margin or 0.0,
        "degrees_ratio": _ratio(asked, privacy.degrees_share, shares),
        "hubs_ratio": _ratio(asked, privacy.hub_share, shares),
        "hub_limit": privacy.hub_limit,
    }


def _ratio(asked: MechanismRequest, share: float | None, others: tuple[float, ...]) -> float | None:
    """Noise std, per unit of sensitivity, of a release of this share of mu^2, in noise multipliers of the steps."""
    privacy, steps = asked.privacy, asked.steps
    if steps is None:
        raise invalid("steps", "max", "a number: shares of the budget are shares of that many steps")
    rest = 1 - privacy.mean_share - privacy.votes_share - sum(others)
    return math.sqrt(rest / share / steps) / asked.rate if share else None


def _fields(asked: MechanismRequest, shares: tuple[float, ...] = (), readers: int = len(READERS)) -> dict[str, Any]:
    """The squares of mu of mean, votes and steps are as their shares; that of T steps at rate q counts q^2 T / s^2.

    That is exact for full batches. For others it is a rule of proportion only: the accountant composes what ran.
    """
    privacy = asked.privacy
    choice, epsilon = privacy.choice_epsilon, privacy.epsilon
    if choice is not None and epsilon is not None and choice >= epsilon:
        raise invalid("choice_epsilon", choice, f"a number < epsilon = {epsilon:g}, of which it is a part")
    return {
        **asked.common(asked.num_train),
        "sampling_rate": asked.rate,
        "mean_ratio": _ratio(asked, privacy.mean_share, shares),
        "votes_ratio": _ratio(asked, privacy.votes_share, shares),
        "mass": privacy.vote_mass,
        "choice_epsilon": choice or 0.0,
        "readers": readers if choice else 1,
    }
