"""The mechanism of votes, from a cell: shares of the budget become ratios of noise."""

from __future__ import annotations

import math
from typing import Any

from dpgraph.errors import invalid
from dpgraph.methods.asked import Asked
from dpgraph.methods.votes.readers import READERS
from dpgraph.privacy.mechanisms.votes import BoundedVotes, PoissonVotes
from dpgraph.privacy.public_numbers import usual_delta


def poisson_votes(asked: Asked) -> PoissonVotes:
    return PoissonVotes(**_fields(asked), degree_floor=asked.privacy.degree_floor)


def bounded_votes(asked: Asked) -> BoundedVotes:
    return BoundedVotes(**_fields(asked), degree_bound=asked.privacy.degree_bound, taper=asked.privacy.taper)


def _fields(asked: Asked) -> dict[str, Any]:
    """The squares of mu of mean, votes and steps are as their shares; that of T steps at rate q counts q^2 T / s^2.

    That is exact for full batches. For others it is a rule of proportion only: the accountant composes what ran.
    """
    privacy, steps = asked.privacy, asked.steps
    if steps is None:
        raise invalid("steps", "max", "a number: shares of the budget are shares of that many steps")
    choice, epsilon = privacy.choice_epsilon, privacy.epsilon
    if choice is not None and epsilon is not None and choice >= epsilon:
        raise invalid("choice_epsilon", choice, f"a number < epsilon = {epsilon:g}, of which it is a part")
    rest = 1 - privacy.mean_share - privacy.votes_share

    def ratio(share: float) -> float | None:
        return math.sqrt(rest / share / steps) / asked.rate if share else None

    common = asked.common(asked.num_train)
    if privacy.delta is None:  # everybody votes, so everybody is protected
        common["delta"] = usual_delta(asked.counts.num_protected or asked.num_train)
    return {
        **common,
        "sampling_rate": asked.rate,
        "mean_ratio": ratio(privacy.mean_share),
        "votes_ratio": ratio(privacy.votes_share),
        "mass": privacy.vote_mass,
        "choice_epsilon": choice or 0.0,
        "readers": len(READERS) if choice else 1,
    }
