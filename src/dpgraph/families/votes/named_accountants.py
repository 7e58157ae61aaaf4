"""Accountants of private votes by name, with their parameters as plain values (`evaluate`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.families.votes.accountant import released_epsilon, votes_epsilon
from dpgraph.families.votes.sensitivity import UNLIKELY, most_voters
from dpgraph.families.votes.sensitivity import capped_votes as moved_by_receivers

Parameters = Mapping[str, Any]


def private_votes(p: Parameters, delta: float) -> float:
    """Theorem V, with Theorem L where a reader is learnt; also when a record is replaced, or an edge goes."""
    reader = p.get("sigma_reader")
    if (reader is None) != ("reader_steps" not in p):
        raise invalid("reader_steps", p.get("reader_steps"), "a number exactly with sigma_reader")
    return votes_epsilon(
        rate=p["q"],
        noise_multiplier=p["noise_multiplier"],
        steps=p["steps"],
        mean_mu=1 / p["sigma_mean"] if "sigma_mean" in p else 0.0,
        votes_mu=1 / p["sigma_votes_over_norm"],
        reader_mu=0.0 if reader is None else math.sqrt(p["reader_steps"]) / reader,
        choice_epsilon=p["eps_choice"],
        mass=p["mass"],
        degree_floor=p["degree_floor"],
        delta=delta,
        relation=p.get("votes_relation", "node-null"),
    )


def capped_votes(p: Parameters, delta: float) -> float:
    """Theorem R: the larger one of a voter's and a receiver's side."""
    failure, most, hubs = UNLIKELY * delta, p["most_voters"], p.get("sigma_hubs")
    if (hubs is None) != ("hub_limit" not in p):
        raise invalid("hub_limit", p.get("hub_limit"), "a number exactly with sigma_hubs")
    if hubs is not None:
        most = most_voters(hub_limit=p["hub_limit"], hubs_noise=hubs, failure=failure, most=most)
    mean, votes = 1 / p["sigma_mean"] if "sigma_mean" in p else 0.0, 1 / p["sigma_votes_over_norm"]
    flags = 0.0 if hubs is None else math.sqrt(p["most_receivers"]) / hubs
    sent = votes_epsilon(
        rate=p["q"],
        noise_multiplier=p["noise_multiplier"],
        steps=p["steps"],
        mean_mu=mean,
        votes_mu=math.hypot(votes, flags),
        choice_epsilon=p["eps_choice"],
        mass=1.0,  # of edges alone, as is the floor
        degree_floor=p["degree_floor"],
        delta=delta,
    )
    above = moved_by_receivers(
        degree_bound=most, margin=p["cap_margin"], degree_floor=p["degree_floor"], failure=failure
    )
    mu = math.hypot(mean, math.sqrt(most) / p["sigma_degrees"], float(above) * votes)
    left = delta - failure * (1 if hubs is None else 2)
    return max(sent, released_epsilon(mu=mu, choice=p["eps_choice"], delta=left))
